#include <doctest/doctest.h>

#include "cli/base/node_jobs.hpp"

using namespace nodestage;

TEST_CASE("sinfo: each node once, in the default partition if it is in that") {
  const auto nodes = read_nodes(
      "n1|n1|idle|0/4/0/4|high|none\n"
      "n1|n1|idle|0/4/0/4|debug*|none\n"
      "n2|host2.example.org|drained*|1/3/0/4|high|Prolog | error\n"
      "n3|n3|idle~|0/x/0/4|high|none\n"
      "hello\n\n");
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].partition == "debug");
  CHECK(nodes[0].state == "idle");
  CHECK(nodes[0].idle_cpus == 4);
  CHECK(nodes[0].reason.empty());
  CHECK_FALSE(nodes[0].is_silent);
  CHECK(nodes[1].name == "n2");
  CHECK(nodes[1].host == "host2");
  CHECK(nodes[1].partition == "high");
  CHECK(nodes[1].state == "drained");
  CHECK(nodes[1].is_silent);
  CHECK(nodes[1].idle_cpus == 3);
  CHECK(nodes[1].reason == "Prolog | error");
  CHECK(nodes[2].state == "idle");
  CHECK(nodes[2].idle_cpus == 0);
  CHECK(read_nodes("").empty());
}

TEST_CASE("sinfo: a node is found by its name, then by its host") {
  const auto nodes = read_nodes(
      "n1|n2|idle|0/4/0/4|p|none\nn2|n1|idle|0/4/0/4|p|none\n"
      "n3|host3|idle|0/4/0/4|p|none\n");
  CHECK(find_node(nodes, "n1") == &nodes[0]);
  CHECK(find_node(nodes, "host3.example.org") == &nodes[2]);
  CHECK(find_node(nodes, "n4") == nullptr);
}

TEST_CASE("names are replaced by Slurm's, each once, and others stay") {
  const auto nodes = read_nodes(
      "c1|host1|idle|0/4/0/4|p|none\nc2|host2|idle|0/4/0/4|p|none\n"
      "c3|c1|idle|0/4/0/4|p|none\n");
  CHECK(names_in_slurm(nodes, {"host2.example.org", "x", "host1", "c2", "c1", "host1", "x"}) ==
        std::vector<std::string>{"c2", "x", "c1"});
  CHECK(names_in_slurm({}, {"n2", "n1"}) == std::vector<std::string>{"n2", "n1"});
}
