// The pages that tests/layout/run looks at in a browser.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "cli/report/report.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/build_info.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_layout_begin = 1'700'000'000'000;

std::uint64_t at_s(std::uint64_t seconds) { return k_layout_begin + seconds * 1000; }

ReportItem item(const std::string& source, const std::string& what, std::uint64_t begun,
                std::uint64_t read_to, std::uint64_t ended) {
  ReportItem item{"done", false, false, what, source, "/localscratch/alice.4711.0/data", "", 1000};
  item.bytes_written = 123'456'789'012;
  item.files = 1'234'567;
  item.begun = at_s(begun);
  item.read_to = at_s(read_to);
  item.ended = at_s(ended);
  return item;
}

NodeReport node(std::uint32_t index, std::uint32_t nodes) {
  NodeReport report{.job = 4711,
                    .node = "n" + std::to_string(index + 1),
                    .node_index = index,
                    .node_count = nodes,
                    .state = "done",
                    .outcome = "success",
                    .at = at_s(4006),
                    .times = {at_s(0), at_s(2), at_s(12), at_s(15), at_s(15), at_s(4000),
                              at_s(4001), at_s(4005), 0, at_s(4006)},
                    .items = {item("/project/def-x/train.tar.zst", "tar.zst", 2, 10, 12),
                              item("/home/alice/requirements.txt", "requirements", 2, 2, 7)}};
  report.items[0].note = "already in place; 3 links that lead out of it are followed";
  report.outputs = {item("results", "directory", 4001, 4003, 4005)};
  return report;
}

// A short job, as most are: all of it is seconds.
NodeReport short_job() {
  NodeReport report = node(0, 1);
  report.times = {at_s(0), at_s(0), at_s(1), 0, at_s(2), at_s(5), at_s(5), at_s(6), 0, at_s(6)};
  report.at = at_s(6);
  report.items = {item("data.tar", "tar", 0, 1, 1)};
  report.outputs.clear();
  return report;
}

// Two results that are held, after deliveries during a week, and a source with a long name.
NodeReport long_job() {
  NodeReport report = node(0, 1);
  report.state = "held";
  report.cause = "/home/alice/scratch/results_of_a_very_long_name: Disk quota exceeded";
  report.times = {at_s(0),       at_s(60), at_s(3700),    0, at_s(3800), at_s(600'000),
                  at_s(600'010), 0,        at_s(600'020), 0};
  report.at = at_s(700'000);
  report.items = {
      item("/project/def-x/a-directory-with-a-very-long-name-indeed-" + std::string(80, 'x'),
           "directory", 60, 3600, 3700)};
  report.outputs = {item("results", "directory", 600'010, 600'020, 600'020)};
  report.outputs[0].state = "failed";
  report.outputs[0].note = report.cause;
  for (std::uint64_t i = 1; i <= 3; ++i)
    report.pushes.push_back({at_s(i * 100'000), at_s(i * 100'000 + 30), 1U << 30, 12, i == 2});
  report.pushes_in_all = 300;
  return report;
}

NodeReport relayed(std::uint32_t index) {
  NodeReport report = node(index, 3);
  report.items[0].bytes_from_storage = index == 0 ? 1'000'000'000 : 0;
  report.items[0].bytes_from_nodes = index == 0 ? 0 : 1'000'000'000;
  return report;
}

// Three nodes of four: one has a damaged dataset, and one a name and notes that want to be markup.
std::vector<NodeReport> failed_job() {
  std::vector<NodeReport> run{node(0, 4), node(1, 4), node(2, 4)};
  NodeReport& failed = run[1];
  failed.state = "failed";
  failed.cause = "train.tar.zst: the archive is damaged after 1.2 GiB: checksum mismatch";
  failed.items[0].state = "failed";
  failed.items[0].note = failed.cause;
  failed.items[1].state = "skipped";
  failed.items[1].is_optional = true;
  failed.items[1].note = "another item had failed";
  failed.items[1].bytes_written = failed.items[1].files = failed.items[1].bytes_read = 0;
  failed.outputs.clear();
  failed.times.run = failed.times.out = failed.times.out_end = 0;
  NodeReport& hostile = run[2];
  hostile.node = "<b>n3</b>";
  hostile.items[0].source =
      "/p/</text></svg></script><script src=\"http://x/\">document.title = 1</script>"
      "\"'&lt;]]><!--<script>\x01\xff\xef\xbf\xbe\xe2\x80\xa8\xe2\x80\xaerat.gpj";
  hostile.items[0].note = "<img src=x onerror=\"document.title = 2\">";
  hostile.items[0].what = "</noscript>";
  hostile.items[1].state = "done";
  hostile.items[1].is_async = true;
  hostile.items[1].note = "shared, already here (staged by job 7)";
  hostile.items[1].bytes_read = hostile.items[1].bytes_written = hostile.items[1].files = 0;
  hostile.cause = "</pre></noscript><img src=x>";
  for (NodeReport& report : run) report = decode_report(encode_report(report)).value();
  return run;
}

// Figures between two that can be shown, and the largest that a node can claim.
std::vector<NodeReport> strange_job() {
  std::vector<NodeReport> run(3, node(0, 3));
  run[0].items.clear();
  std::uint64_t begun = at_s(2);
  for (const auto& [ms, bytes] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 0},
                                                            {50, 1023},
                                                            {250, 1280},
                                                            {350, 1792},
                                                            {750, 1'023'949},
                                                            {1250, 1'023'950},
                                                            {59'949, 1'048'000},
                                                            {59'950, 1'310'720},
                                                            {3'599'499, 1ULL << 40},
                                                            {3'599'500, 5ULL << 48}}) {
    ReportItem& added = run[0].items.emplace_back(item("/p/data.tar", "tar", 0, 0, 0));
    added.begun = begun;
    added.read_to = added.ended = begun += ms;
    added.bytes_written = added.files = bytes;
  }
  for (const std::size_t i : {1U, 2U}) {
    const std::uint64_t number = i == 1 ? ~0ULL : 1;
    NodeReport& report = run[i];
    report.node = "n" + std::to_string(i + 1);
    report.times = {number, number, number, number, number, number, number, number, number, number};
    report.at = number;
    report.pushes = {{number, 0, number, number, false}, {0, number, 0, 0, true}};
    report.pushes_in_all = 2;
    if (i == 2) report.times.staged = ~0ULL;
    for (ReportItem& one : report.items)
      one.begun = one.read_to = one.ended = one.bytes_written = one.bytes_from_nodes = number;
  }
  for (NodeReport& report : run) report = decode_report(encode_report(report)).value();
  return run;
}

}  // namespace

TEST_CASE("pages that are looked at in a browser") {
  NodeReport restarted = short_job();
  restarted.restart = 1;
  const std::pair<const char*, std::vector<std::vector<NodeReport>>> pages[] = {
      {"short", {{short_job()}}},
      {"long", {{long_job()}}},
      {"nodes", {{relayed(0), relayed(1), relayed(2)}}},
      {"failed", {failed_job()}},
      {"strange", {strange_job()}},
      {"runs", {{node(0, 2), node(1, 2)}, {restarted}}}};
  const char* const directory = std::getenv("NODESTAGE_PAGES");
  for (const auto& [name, runs] : pages) {
    const std::string page = report_page(runs);
    CHECK(has(page, "</html>"));
    if (directory != nullptr) write_file(directory + ("/" + std::string(name) + ".html"), page);
  }
}

namespace {

NodeReport long_report(const std::string& node) {
  return {.job = 12, .node = node, .cause = node + std::string(1500, 'x')};
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

TEST_CASE("a running job's nodes are asked in a step of it, others by a job of their own") {
  const auto inside = step_words({.nodes = "n[1-2]", .node_count = 2}, "12.1", k_socket_path);
  check_has(inside, {"--jobid=12", "--overlap", "--nodelist=n[1-2]", "12.1"});
  CHECK_FALSE(has(inside, "--time=1"));
  CHECK_FALSE(has(step_words({.nodes = "n1"}, "12", "/s"), "--nodes=0"));
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
