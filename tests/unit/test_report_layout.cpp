// The pages that tests/layout/run looks at in a browser.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cli/report/report.hpp"
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
  NodeReport report;
  report.job = 4711;
  report.node = "n" + std::to_string(index + 1);
  report.node_index = index;
  report.node_count = nodes;
  report.state = "done";
  report.outcome = "success";
  report.times = {at_s(0),    at_s(2),    at_s(12),   at_s(15), at_s(15),
                  at_s(4000), at_s(4001), at_s(4005), 0,        at_s(4006)};
  report.at = at_s(4006);
  report.items = {item("/project/def-x/train.tar.zst", "tar.zst", 2, 10, 12),
                  item("/home/alice/requirements.txt", "requirements", 2, 2, 7)};
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
