#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "cli/base/node_jobs.hpp"
#include "cli/base/slurm_job.hpp"
#include "cli/report/report.hpp"
#include "common/build_info.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

NodeReport long_report(const std::string& node) {
  NodeReport report;
  report.job = 12;
  report.node = node;
  report.cause = node + std::string(1500, 'x');
  return report;
}

std::string pieces(const NodeReport& report) { return to_pieces(report, encode_report(report)); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("reports of several nodes come whole through lines in any order, with others between") {
  auto lines = lines_of(pieces(long_report("n1")) + pieces(long_report("n2")));
  REQUIRE(lines.size() >= 4);
  std::reverse(lines.begin(), lines.end());
  std::string text = "something else\n";
  for (const std::string& line : lines) {
    CHECK(line.size() < 1000);
    text += line + "\nnodestage-report\nnodestage-report n1 0 7 3 x\n";
  }
  const auto reports = from_pieces(text, {"n1", "n2"});
  REQUIRE(reports.size() == 2);
  CHECK(reports[0] == long_report("n1"));
  CHECK(reports[1] == long_report("n2"));
}

TEST_CASE("what is cut off, claims too much or is no report is passed over") {
  auto lines = lines_of(pieces(long_report("n1")));
  lines.pop_back();
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  for (const std::string& none : {text, std::string("nodestage-report n1 0 0 99999999999 {}\n"),
                                  std::string("nodestage-report n1 0 0 1 {}\n"),
                                  std::string("nodestage-report n1 -1 0 1"), std::string()})
    CHECK(from_pieces(none, {"n1"}).empty());
}

TEST_CASE(
    "the end of an answer is no report, and shows that a node without a record has answered") {
  const std::string text = end_of_pieces("n1") + pieces(long_report("n2")) + end_of_pieces("n2");
  CHECK(from_pieces(text, {"n1", "n2", "n3"}).size() == 1);
  const NodeTexts texts = texts_from_pieces(text, {"n1", "n2", "n3"}, 1);
  CHECK(texts.contains("n1"));
  CHECK(texts.contains("n2"));
  CHECK_FALSE(texts.contains("n3"));
}

TEST_CASE("a line of squeue or sacct gives where a job ran") {
  const auto nodes = parse_job_nodes("11|RUNNING|1|n9\n12|COMPLETED|3|n[1-2],m1\n", 12);
  REQUIRE(nodes);
  CHECK(nodes->list == "n[1-2],m1");
  CHECK(nodes->count == 3);
  CHECK_FALSE(nodes->is_running);
  CHECK(parse_job_nodes("12|RUNNING|1|n1\n", 12)->is_running);
  CHECK_FALSE(parse_job_nodes("12|RUNNING|1|n1\n", 12)->uid);
  CHECK(parse_job_nodes("12|RUNNING|1|n1|1001\n", 12)->list == "n1");
  CHECK(parse_job_nodes("12|RUNNING|1|n1|1001\n", 12)->uid == 1001);
  CHECK_FALSE(parse_job_nodes("12|COMPLETED|1|n1|1001\n", 12)->uid);
  for (const char* none : {"", "12|PENDING|1|\n", "12|CANCELLED|1|None assigned\n", "12|x\n",
                           "112|RUNNING|1|n1\n", "squeue: error: Invalid job id specified\n"})
    CHECK_FALSE(parse_job_nodes(none, 12));
  CHECK(parse_job_nodes("12|RUNNING|many|n1\n", 12)->count == 0);
}

TEST_CASE("a running job's nodes are asked in a step of it, others by a job of their own") {
  const auto inside = step_words({"n[1-2]", 2, true}, "12.1", k_socket_path);
  check_has(inside, {"--jobid=12", "--overlap", "--nodelist=n[1-2]", "12.1"});
  CHECK_FALSE(has(inside, "--time=1"));
  CHECK_FALSE(has(step_words({"n1", 0, true}, "12", "/s"), "--nodes=0"));
  const auto outside = node_job_words({{"n1", "n2"}, "high"}, report_words("12", "/s"));
  check_has(outside, {"--nodelist=n1,n2", "--nodes=2", "--partition=high", "--time=1",
                      "--socket=/s", "--stage-wait=none"});
  CHECK_FALSE(has(outside, "--overlap"));
}

TEST_CASE(
    "nodes with a free CPU are asked by one job of each partition, busy ones each by its own") {
  const auto known = read_nodes(
      "n1|n1|idle|0/4/0/4|debug*|none\nn2|n2|allocated|4/0/0/4|debug*|none\n"
      "n3|n3|mixed|1/3/0/4|debug*|none\nn4|n4|drained|0/0/4/4|debug*|x\n"
      "n5|n5|idle~|0/4/0/4|debug*|none\nn6|n6|idle*|0/4/0/4|debug*|none\n"
      "g1|g1|idle|0/4/0/4|gpu|none\n");
  const NodePlan plan = plan_node_jobs({"n1", "n2", "n3", "n4", "n5", "n6", "g1", "x"}, known);
  REQUIRE(plan.groups.size() == 3);
  CHECK(plan.groups[0].nodes == std::vector<std::string>{"n1", "n3"});
  CHECK(plan.groups[0].partition.empty());
  CHECK(plan.groups[1].nodes == std::vector<std::string>{"g1"});
  CHECK(plan.groups[1].partition == "gpu");
  CHECK(plan.groups[2].nodes == std::vector<std::string>{"n2"});
  CHECK(silence_text(plan.silent) ==
        "n4 (drained); x (not in a partition that you can use); n6 (slurmd does not answer); n5 "
        "(switched off)");
  const NodePlan blind = plan_node_jobs({"n1", "n2"}, {});
  REQUIRE(blind.groups.size() == 1);
  CHECK(blind.groups[0].nodes.size() == 2);
  std::map<std::string, std::string> many;
  for (int i = 10; i < 40; ++i) many["n" + std::to_string(i)] = "down";
  CHECK(silence_text(many) ==
        "n10, n11, n12, n13, n14, n15, n16, n17, n18, n19 and 20 more (down)");
}

TEST_CASE("nodes are asked in groups of 64 at most, and reserved ones each by a job of its own") {
  std::string listed = "r1|r1|reserved|0/4/0/4|debug*|none\n";
  std::vector<std::string> names = {"r1"};
  for (int i = 0; i < 150; ++i) {
    names.push_back("n" + std::to_string(i));
    listed += names.back() + "|" + names.back() + "|idle|0/4/0/4|debug*|none\n";
  }
  const NodePlan plan = plan_node_jobs(names, read_nodes(listed));
  CHECK(plan.silent.empty());
  REQUIRE(plan.groups.size() == 4);
  CHECK(plan.groups[0].nodes.size() == 64);
  CHECK(plan.groups[1].nodes.size() == 64);
  CHECK(plan.groups[2].nodes.size() == 22);
  CHECK(plan.groups[2].nodes.back() == "n149");
  CHECK(plan.groups[3].nodes == std::vector<std::string>{"r1"});
  CHECK(plan_node_jobs(names, {}).groups.size() == 3);

  std::string reserved;
  for (const std::string& name : names)
    reserved += name + "|" + name + "|reserved|0/4/0/4|debug*|none\n";
  const NodePlan bounded = plan_node_jobs(names, read_nodes(reserved));
  CHECK(bounded.groups.size() == 64);
  CHECK(bounded.silent.size() == 151 - 64);
  CHECK(bounded.silent.at("n149") == "reserved");
  ::setenv("SLURM_RESERVATION", "course", 1);
  CHECK(plan_node_jobs(names, read_nodes(reserved)).groups.size() == 3);
  ::unsetenv("SLURM_RESERVATION");
}

TEST_CASE("Slurm is asked as from outside of a job, with the user's defaults") {
  ::setenv("SLURM_JOB_ID", "7", 1);
  ::setenv("SLURM_ACCOUNT", "def-x", 1);
  const auto environment = environment_outside_of_jobs();
  ::unsetenv("SLURM_JOB_ID");
  ::unsetenv("SLURM_ACCOUNT");
  check_has(environment, {"SLURM_ACCOUNT=def-x", std::string("PATH=") + std::getenv("PATH")});
  CHECK_FALSE(has(environment, "SLURM_JOB_ID=7"));
}

TEST_CASE("a job's number may have the number of its run") {
  CHECK(parse_job_id("12")->job == 12);
  CHECK(parse_job_id("12")->restart == k_no_number);
  CHECK(parse_job_id("12.3")->restart == 3);
  for (const char* wrong : {"", "x", "12.", "12_3", "12.x", "-1", "4294967296", " 12"})
    CHECK_FALSE(parse_job_id(wrong));
}
