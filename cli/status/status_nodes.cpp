#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/base/conversation.hpp"
#include "cli/status/status.hpp"
#include "common/build_info.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/human.hpp"
#include "common/text/json_fields.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {
namespace {

// The output that is read from all nodes together. A node's share is at least enough for 100 items.
constexpr std::size_t k_all_bytes = std::size_t{64} << 20;
constexpr std::size_t k_least_status_bytes = std::size_t{64} << 10;

using Json = nlohmann::json;

constexpr int k_json_version = 1;
constexpr std::uint64_t k_shortest_ms = 100;       // the shortest duration with a rate
constexpr std::uint64_t k_longest_s = 100 * 3600;  // a longer estimate means no progress
constexpr std::size_t k_max_jobs = 64;             // runs of a job on one node
constexpr std::size_t k_max_items = 4 * k_max_request_items;
constexpr std::size_t k_word_bytes = 128;  // of the names of a node, a user, or a state
constexpr std::size_t k_text_bytes = 4096;

bool has_flag(const StatusItem& item, std::uint32_t flag) { return (item.flags & flag) != 0; }

// Adds a text that is not empty.
void put_text(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = printable(text, Newlines::keep);
}

Json to_json(const StatusItem& item) {
  Json json{{"kind", word_of(k_item_kind_words, item.kind)},
            {"state", word_of(k_item_state_words, item.state)},
            {"async", has_flag(item, k_item_async)},
            {"optional", has_flag(item, k_item_optional)},
            {"source", printable(item.source)},
            {"bytes_read", item.bytes_read},
            {"bytes_written", item.bytes_written},
            {"files", item.files},
            {"elapsed_seconds", static_cast<double>(item.elapsed_ms) / 1000}};
  put_text(json, "name", item.name);
  put_text(json, "what", item.what);
  put_text(json, "destination", item.destination);
  put_text(json, "note", item.note);
  if (has_flag(item, k_item_linked)) json["linked"] = true;
  if (has_flag(item, k_item_unsettled)) json["unsettled"] = true;
  if (item.bytes_total != 0) json["bytes_total"] = item.bytes_total;
  if (const auto rate = rate_of(item); rate != 0) json["bytes_per_second"] = rate;
  if (const auto left = seconds_left(item)) json["seconds_left"] = *left;
  return json;
}

Json to_json(const JobStatus& status) {
  const StatusRow& row = status.row;
  Json json{{"job", row.job},
            {"restart", row.restart},
            {"uid", row.uid},
            {"user", printable(row.user)},
            {"node", printable(row.node)},
            {"state", printable(row.state)},
            {"items", Json::array()}};
  if (row.begun_at != 0) json["begun"] = row.begun_at;
  put_text(json, "cause", row.cause);
  put_text(json, "others", row.others);
  put_text(json, "kept_in", row.kept_in);
  for (const StatusItem& item : status.items) json["items"].push_back(to_json(item));
  return json;
}

// Reads the JSON that a node has printed: its texts become printable, and its claims bounded.
class Reader {
 public:
  explicit Reader(const Json& json) : fields_(json) {}

  template <typename T>
  void number(const char* name, T& value) {
    fields_.read(name, value);
  }
  void text(const char* name, std::string& value, std::size_t bytes = k_text_bytes) {
    fields_.read_utf8(name, value);
    value = printable_within(value, bytes, Newlines::keep);
  }
  void word(const char* name, std::string& value) { text(name, value, k_word_bytes); }
  void optional_text(const char* name, std::string& value) {
    if (fields_.has(name)) text(name, value);
  }
  void claim(const char* name, std::uint64_t& value) {
    fields_.read(name, value);
    value = std::min(value, k_largest_claim);
  }
  void milliseconds(const char* name, std::uint64_t& value) {
    double seconds = 0;
    fields_.read(name, seconds);
    if (!(seconds >= 0)) return fields_.refuse(name, "is negative");
    const auto most = static_cast<double>(k_largest_claim);
    value = static_cast<std::uint64_t>(std::llround(std::min(seconds * 1000, most)));
  }
  void flag(const char* name, std::uint32_t& flags, std::uint32_t flag) {
    bool is_set = false;
    fields_.read(name, is_set);
    if (is_set) flags |= flag;
  }
  template <typename T>
  void one_of(std::span<const Word> words, const char* name, T& value) {
    std::string word;
    fields_.read_utf8(name, word);
    const auto known = value_of(words, word);
    if (!known) return fields_.refuse(name, "is not known");
    value = static_cast<T>(*known);
  }
  [[nodiscard]] bool has(const char* name) const { return fields_.has(name); }
  const Json& list(const char* name, std::size_t most) {
    const Json& list = fields_.list(name);
    if (list.size() > most) fields_.refuse(name, "is too long");
    return list;
  }
  [[nodiscard]] const Status& status() const { return fields_.status(); }

 private:
  JsonFields fields_;
};

Result<StatusItem> item_of(const Json& json) {
  Reader in(json);
  StatusItem item;
  in.one_of(k_item_kind_words, "kind", item.kind);
  in.one_of(k_item_state_words, "state", item.state);
  in.flag("async", item.flags, k_item_async);
  in.flag("optional", item.flags, k_item_optional);
  if (in.has("linked")) in.flag("linked", item.flags, k_item_linked);
  if (in.has("unsettled")) in.flag("unsettled", item.flags, k_item_unsettled);
  in.text("source", item.source);
  in.claim("bytes_read", item.bytes_read);
  if (in.has("bytes_total")) in.claim("bytes_total", item.bytes_total);
  in.claim("bytes_written", item.bytes_written);
  in.claim("files", item.files);
  in.milliseconds("elapsed_seconds", item.elapsed_ms);
  in.optional_text("name", item.name);
  in.optional_text("what", item.what);
  in.optional_text("destination", item.destination);
  in.optional_text("note", item.note);
  TRY(in.status());
  return item;
}

Result<JobStatus> job_of(const Json& json) {
  Reader in(json);
  JobStatus status;
  StatusRow& row = status.row;
  in.number("job", row.job);
  in.number("restart", row.restart);
  in.number("uid", row.uid);
  in.word("user", row.user);
  in.word("node", row.node);
  in.word("state", row.state);
  if (in.has("begun")) in.claim("begun", row.begun_at);
  in.optional_text("cause", row.cause);
  in.optional_text("others", row.others);
  in.optional_text("kept_in", row.kept_in);
  const Json& items = in.list("items", k_max_items);
  TRY(in.status());
  for (const Json& item : items) {
    TRY_ASSIGN(StatusItem read, item_of(item));
    status.items.push_back(std::move(read));
  }
  return status;
}

Result<std::vector<JobStatus>> jobs_of(const Json& json) {
  Reader in(json);
  int version = 0;
  in.number("version", version);
  TRY(in.status());
  if (version != k_json_version) return Error{EPROTO, "another version"};
  const Json& list = in.list("jobs", k_max_jobs);
  TRY(in.status());
  std::vector<JobStatus> jobs;
  for (const Json& job : list) {
    TRY_ASSIGN(JobStatus read, job_of(job));
    jobs.push_back(std::move(read));
  }
  return jobs;
}

bool is_moving(const JobStatus& status) {
  const StatusRow& row = status.row;
  if (!row.others.empty() || is_moving_state(row.state)) return true;
  return row.state == to_text(JobState::ready) &&
         std::any_of(status.items.begin(), status.items.end(), [](const StatusItem& item) {
           return item.state == ItemState::waiting || item.state == ItemState::working;
         });
}

}  // namespace

std::uint64_t rate_of(const StatusItem& item) {
  if (item.elapsed_ms < k_shortest_ms || has_flag(item, k_item_linked)) return 0;
  const bool is_done = item.state == ItemState::done;
  if (!is_done && item.state != ItemState::working) return 0;
  return (is_done ? item.bytes_written : item.bytes_read) * 1000 / item.elapsed_ms;
}

std::optional<std::uint64_t> seconds_left(const StatusItem& item) {
  const std::uint64_t rate = rate_of(item);
  if (item.state != ItemState::working || rate == 0 || item.bytes_total <= item.bytes_read)
    return {};
  const std::uint64_t seconds = (item.bytes_total - item.bytes_read + rate - 1) / rate;
  if (seconds > k_longest_s) return {};
  return seconds;
}

bool is_moving(const StatusReport& report) {
  if (report.end) return report.end->is_completing;
  if (report.jobs.empty()) return !report.slurm_state.empty() && report.faults.empty();  // pending
  return std::any_of(report.jobs.begin(), report.jobs.end(),
                     [](const JobStatus& status) { return is_moving(status); });
}

std::string to_json(const StatusReport& report, JsonForm form) {
  Json json{{"version", k_json_version}, {"jobs", Json::array()}, {"faults", Json::array()}};
  for (const JobStatus& status : report.jobs) json["jobs"].push_back(to_json(status));
  for (const NodeFault& fault : report.faults)
    json["faults"].push_back({{"node", printable(fault.node)}, {"fault", printable(fault.what)}});
  put_text(json, "slurm_state", report.slurm_state);
  if (report.end) {
    put_text(json, "ending_on", report.end->nodes);
    put_text(json, "output", report.end->output);
    if (report.end->is_read) json["lines"] = report.end->lines;
  }
  return json.dump(form == JsonForm::indented ? 2 : -1);
}

Result<std::vector<JobStatus>> jobs_of_json(std::string_view text) {
  if (text.size() > k_max_status_bytes) return Error{EPROTO, "the answer is too long"};
  const Json json = Json::parse(text, nullptr, false);
  auto jobs = json.is_discarded() ? Error{EPROTO, "it is not JSON"} : jobs_of(json);
  if (jobs) return jobs;
  return Error{EPROTO,
               "the answer cannot be read: " + shortened(printable(jobs.error().text()), 200)};
}

std::vector<std::string> step_environment() {
  std::vector<std::string> environment{std::string(k_observer_variable) + "=1", "LC_ALL=C.UTF-8"};
  for (const char* name : {"PATH", "SLURM_CONF"}) {
    if (const char* value = std::getenv(name); value != nullptr)
      environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

Program step_on(const std::string& node, const SlurmJob& job, const std::string& socket) {
  const std::string id = std::to_string(job.id);
  Program program;
  program.words = {"srun",         "--jobid=" + id,
                   "--overlap",    "--nodes=1",
                   "--ntasks=1",   "--nodelist=" + node,
                   "--input=none", "--mpi=none",
                   "--quiet",      "nodestage",
                   "status",       "--here",
                   "--json",       id};
  if (socket != k_socket_path) program.words.push_back("--socket=" + socket);
  program.environment = step_environment();
  return program;
}

void add_answer(StatusReport& report, const std::string& node, const SlurmJob& job,
                const ProgramEnd& end) {
  if (end.is_cut) {
    report.faults.push_back({node, "the answer is too long"});
  } else if (end.code == 0 && !end.late) {
    auto jobs = jobs_of_json(end.output);
    if (!jobs) return report.faults.push_back({node, jobs.error().text()});
    const bool is_of_job = std::all_of(jobs->begin(), jobs->end(), [&](const JobStatus& status) {
      return status.row.job == job.id && status.row.uid == job.uid;
    });
    if (!is_of_job) return report.faults.push_back({node, "an answer about another job"});
    std::move(jobs->begin(), jobs->end(), std::back_inserter(report.jobs));
  } else if (end.code == k_no_such_job) {
    report.faults.push_back({node, "nodestaged on this node does not know the job"});
  } else {
    report.faults.push_back({node, why_srun_failed(end, k_program_limit, 300)});
  }
}

Result<StatusReport> ask_nodes(const SlurmJob& job, const std::string& socket) {
  TRY_ASSIGN(const std::vector<std::string> nodes, expand_nodes(job.nodes));
  std::optional<Account> account;
  if (job.uid != ::geteuid()) {
    TRY_ASSIGN(account, account_of(job.uid));
  }
  const std::size_t share = k_all_bytes / std::max<std::size_t>(nodes.size(), 1);
  std::vector<Program> programs;
  for (const std::string& node : nodes) {
    programs.push_back(step_on(node, job, socket));
    programs.back().account = account;
    programs.back().most_output = std::clamp(share, k_least_status_bytes, k_max_status_bytes);
  }
  const std::vector<ProgramEnd> ends = run_programs(programs);
  StatusReport report;
  const bool nobody_knows = std::all_of(
      ends.begin(), ends.end(), [](const ProgramEnd& end) { return end.code == k_no_such_job; });
  if (nobody_knows) return report;
  for (std::size_t i = 0; i < nodes.size(); ++i) add_answer(report, nodes[i], job, ends[i]);
  return report;
}

}  // namespace nodestage
