// Nodes of a job in a row: each gets every byte, and one reads the original.
#include <doctest/doctest.h>

#include "relay_run.hpp"

using namespace nodestage;

namespace {

// Reads on all nodes side by side, and checks what each got.
void read_on_all(const std::vector<RelayNode*>& nodes, const RelayFile& file) {
  std::vector<std::string> got(nodes.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    threads.emplace_back([&, i] { got[i] = read_slot(*nodes[i], file.bytes.size()); });
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].size() == file.bytes.size());
    CHECK((got[i] == file.bytes));
  }
}

}  // namespace

TEST_CASE("two nodes: the second gets all of it from the first") {
  const Scratch scratch;
  const RelayFile file(scratch / "data", noise(5 * k_mib + 12345));
  RelayNode head;
  RelayNode link;
  head.start();
  head.set_head();
  link.start();
  link.set_link(head);
  for (auto* node : {&head, &link}) {
    node->set_lanes();
    node->ask(file);
  }
  read_on_all({&head, &link}, file);
  CHECK(head.slot().from_storage == file.bytes.size());
  CHECK(head.slot().from_nodes == 0);
  CHECK(link.slot().from_storage == 0);
  CHECK(link.slot().from_nodes == file.bytes.size());
  CHECK(field_text(link.slot().upstream) == "before");
}
