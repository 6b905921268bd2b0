#include "cli/status/status_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/text/human.hpp"
#include "common/text/json_value.hpp"

namespace nodestage {
namespace {

using Json = nlohmann::json;

constexpr int k_json_version = 1;
constexpr std::uint64_t k_shortest_ms = 100;       // the shortest duration with a rate
constexpr std::uint64_t k_longest_s = 100 * 3600;  // a longer estimate means no progress
constexpr std::array k_item_states = {"waiting", "working", "done", "failed", "skipped"};
constexpr std::array k_item_kinds = {"dataset", "venv", "output"};  // ItemKind counts from 1

bool has_flag(const StatusItem& item, std::uint32_t flag) { return (item.flags & flag) != 0; }

const char* to_text(ItemKind kind) { return k_item_kinds.at(static_cast<std::size_t>(kind) - 1); }

// Adds a text that is not empty.
void put_text(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = printable(text, Newlines::keep);
}

Json to_json(const StatusItem& item) {
  Json json{{"kind", to_text(item.kind)},
            {"state", nodestage::to_text(item.state)},
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

// Readers: each can throw a std::exception.

std::string text_of(const Json& json, const char* name) {
  return printable(json.at(name).get_ref<const std::string&>(), Newlines::keep);
}

std::string optional_text(const Json& json, const char* name) {
  return json.contains(name) ? text_of(json, name) : "";
}

template <typename T = std::uint64_t>
T number_of(const Json& json, const char* name) {
  return from_json_value<T>(json.at(name));
}

std::uint64_t claim_of(const Json& json, const char* name) {
  return std::min(number_of(json, name), k_largest_claim);
}

template <typename Names>
std::uint32_t index_of(const Names& names, const std::string& text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw std::out_of_range(text);
  return static_cast<std::uint32_t>(found - names.begin());
}

std::uint64_t milliseconds_of(const Json& json, const char* name) {
  const auto seconds = json.at(name).get<double>();
  const auto most = static_cast<double>(k_largest_claim);
  if (!(seconds >= 0)) throw std::out_of_range(name);
  return static_cast<std::uint64_t>(std::llround(std::min(seconds * 1000, most)));
}

StatusItem item_of(const Json& json) {
  StatusItem item;
  item.kind = static_cast<ItemKind>(index_of(k_item_kinds, text_of(json, "kind")) + 1);
  item.state = static_cast<ItemState>(index_of(k_item_states, text_of(json, "state")));
  item.flags = (json.at("async").get<bool>() ? k_item_async : 0) |
               (json.at("optional").get<bool>() ? k_item_optional : 0);
  item.source = text_of(json, "source");
  item.bytes_read = claim_of(json, "bytes_read");
  if (json.contains("bytes_total")) item.bytes_total = claim_of(json, "bytes_total");
  item.bytes_written = claim_of(json, "bytes_written");
  item.files = claim_of(json, "files");
  item.elapsed_ms = milliseconds_of(json, "elapsed_seconds");
  item.name = optional_text(json, "name");
  item.what = optional_text(json, "what");
  item.destination = optional_text(json, "destination");
  item.note = optional_text(json, "note");
  return item;
}

JobStatus job_of(const Json& json) {
  JobStatus status;
  StatusRow& row = status.row;
  row.job = number_of<std::uint32_t>(json, "job");
  row.restart = number_of<std::uint32_t>(json, "restart");
  row.uid = number_of<std::uint32_t>(json, "uid");
  row.user = text_of(json, "user");
  row.node = text_of(json, "node");
  row.state = text_of(json, "state");
  if (json.contains("begun")) row.begun_at = number_of(json, "begun");
  row.cause = optional_text(json, "cause");
  row.others = optional_text(json, "others");
  row.kept_in = optional_text(json, "kept_in");
  for (const Json& item : json.at("items")) status.items.push_back(item_of(item));
  return status;
}

bool is_moving(const JobStatus& status) {
  static constexpr std::array k_moving = {
      "waiting_for_directory", "queued", "staging", "stopping", "awaiting_outcome", "staging_out"};
  const StatusRow& row = status.row;
  if (!row.others.empty() ||
      std::find(k_moving.begin(), k_moving.end(), row.state) != k_moving.end())
    return true;
  return row.state == "ready" &&
         std::any_of(status.items.begin(), status.items.end(), [](const StatusItem& item) {
           return item.state == ItemState::waiting || item.state == ItemState::working;
         });
}

}  // namespace

std::uint64_t rate_of(const StatusItem& item) {
  if (item.elapsed_ms < k_shortest_ms) return 0;
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

const char* to_text(ItemState state) { return k_item_states.at(static_cast<std::size_t>(state)); }

bool is_moving(const StatusReport& report) {
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
  return json.dump(form == JsonForm::indented ? 2 : -1);
}

Result<std::vector<JobStatus>> jobs_of_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (number_of(json, "version") != k_json_version) throw std::out_of_range("another version");
    std::vector<JobStatus> jobs;
    for (const Json& job : json.at("jobs")) jobs.push_back(job_of(job));
    return jobs;
  } catch (const std::exception& fault) {
    return Error{EPROTO, std::string("the answer cannot be read: ") +
                             shortened(printable(fault.what()), 200)};
  }
}

}  // namespace nodestage
