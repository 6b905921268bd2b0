// Attack: the job's user writes what root's `nodestage report` and `nodestage status` read from the
// steps on the job's nodes, to make them loop, or fill root's memory.
#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "../unit/texts.hpp"
#include "cli/report/report.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "cli/status/status.hpp"
#include "status_sample.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_huge = std::numeric_limits<std::uint64_t>::max();

NodeReport sample(std::uint32_t restart = 0) {
  NodeReport report{.job = 12, .restart = restart, .node = "n1", .state = "done"};
  report.items.push_back(
      {"done", false, false, "file", "/p/a", "/l/a", "", 1, 2, 3, 4, 5, 6, 7, 8});
  return report;
}

std::string piece(const std::string& node, std::uint32_t restart, const std::string& json) {
  return "nodestage-report " + node + " " + std::to_string(restart) + " 0 1 " + json + "\n";
}

// A report in which each number of 64 bits has this value.
NodeReport with_all_numbers(std::uint64_t value) {
  auto json = nlohmann::json::parse(encode_report(sample()));
  for (auto& time : json["times"]) time = value;
  json["at"] = value;
  for (const char* name : {"bytes_read", "bytes_written", "files", "bytes_from_storage",
                           "bytes_from_nodes", "begun", "read_to", "ended"})
    json["items"][0][name] = value;
  json["pushes"] = {{{"begun", value},
                     {"ended", value},
                     {"bytes_written", value},
                     {"files", value},
                     {"has_failed", false}}};
  return decode_report(json.dump()).value();
}

SlurmJob job() { return {.id = 12, .uid = 1001}; }

std::string fault_of(const std::string& answer) {
  StatusReport report;
  add_answer(report, "n1", job(), {0, false, answer, "", false});
  return report.faults.empty() ? "" : report.faults.front().what;
}

}  // namespace

TEST_CASE("three million short lines keep nothing but a few runs of the nodes that were asked") {
  std::string text;
  for (std::uint32_t i = 0; i < 300'000; ++i) text += piece("n1", i, "x");
  CHECK(from_pieces(text, {"n1"}).empty());

  text.clear();
  for (std::uint32_t i = 0; i < 2 * k_most_runs_of_a_node; ++i)
    text += to_pieces(sample(i), encode_report(sample(i)));
  CHECK(from_pieces(text, {"n1"}).size() == k_most_runs_of_a_node);
  CHECK(from_pieces(text, {"n2"}).empty());
}

TEST_CASE("a report of another node or run than its lines, and a line that no report has") {
  const std::string json = encode_report(sample());
  CHECK(from_pieces(piece("n1", 0, json), {"n1"}).size() == 1);
  CHECK(from_pieces(piece("n2", 0, json), {"n1", "n2"}).empty());
  CHECK(from_pieces(piece("n1", 1, json), {"n1"}).empty());
  CHECK(from_pieces(piece("n1", 0, json + std::string(1000, ' ')), {"n1"}).empty());
  CHECK_FALSE(decode_report(json + std::string(k_max_report_bytes, ' ')));
}

TEST_CASE("the output of srun is bounded by the number of nodes") {
  CHECK(most_bytes_of_pieces(1) == 1 << 20);
  CHECK(most_bytes_of_pieces(1000) == std::size_t{128'000} << 10);
  CHECK(most_bytes_of_pieces(100'000) == 256 << 20);
}

TEST_CASE("numbers and times as large as can be make no large page or table") {
  for (const std::uint64_t value : {k_huge, k_huge / 2, k_largest_claim, std::uint64_t{1}}) {
    std::vector<NodeReport> run(3, with_all_numbers(value));
    run.push_back(with_all_numbers(1));
    CHECK(run[0].times.begun <= k_largest_claim);
    CHECK(report_page({run}).size() < 100'000);
    CHECK(report_table(run).size() < 10'000);
  }
  std::vector<NodeReport> many(k_most_runs_of_a_node, sample());
  for (NodeReport& report : many) report.items[0].bytes_from_storage = k_huge / 2;
  CHECK(origin_of(many).from_storage == k_huge);
}

TEST_CASE("words of a megabyte do not make every line of a table as wide") {
  auto json = nlohmann::json::parse(encode_report(sample()));
  for (const char* name : {"state", "outcome", "cause"}) json[name] = std::string(16'000, 'x');
  const auto report = must(decode_report(json.dump()));
  CHECK(report.state.size() < 100);
  CHECK(report_table(std::vector<NodeReport>(10, report)).size() < 50'000);
}

TEST_CASE("status: an answer that is too long, or has too many jobs or items, is a fault") {
  StatusReport told{.jobs = {sample_job("n1", "ready", {sample_item(ItemState::done)})}};
  CHECK(fault_of(to_json(told, JsonForm::one_line)).empty());
  const std::string blanks(k_max_status_bytes, ' ');
  CHECK(fault_of(to_json(told, JsonForm::one_line) + blanks) == "the answer is too long");

  StatusReport jobs;
  jobs.jobs.assign(100, told.jobs[0]);
  CHECK(has(fault_of(to_json(jobs, JsonForm::one_line)), "'jobs' is too long"));
  StatusReport items = told;
  items.jobs[0].items.assign(300, sample_item(ItemState::done));
  CHECK(has(fault_of(to_json(items, JsonForm::one_line)), "'items' is too long"));

  StatusReport report;
  add_answer(report, "n1", job(), {0, false, "{}", "", true});
  CHECK(report.faults.front().what == "the answer is too long");
}

TEST_CASE("status: words and times of a node's answer are short") {
  StatusReport told;
  told.jobs = {sample_job(std::string(10'000, 'n').c_str(), std::string(10'000, 's').c_str(), {})};
  told.jobs[0].row.begun_at = k_huge;
  const auto jobs = must(jobs_of_json(to_json(told, JsonForm::one_line)));
  CHECK(jobs.front().row.node.size() <= 128);
  CHECK(jobs.front().row.state.size() <= 128);
  CHECK(jobs.front().row.begun_at == k_largest_claim);
}
