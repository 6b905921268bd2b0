#include "common/wire/node_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text/human.hpp"
#include "common/text/json_fields.hpp"

namespace nodestage {
namespace {

using Json = nlohmann::json;

constexpr int k_version = 1;
constexpr std::size_t k_word_bytes = 64;  // of a state or an outcome
constexpr std::size_t k_path_bytes = 300;
constexpr std::size_t k_note_bytes = 400;
constexpr std::size_t k_cause_bytes = 2000;
// Reserved for all but the items.
constexpr std::size_t k_head_bytes = 16 * 1024;

void each_field(Is<JobTimes> auto& times, auto field) {
  field("begun", times.begun);
  field("staging", times.staging);
  field("staged", times.staged);
  field("decided", times.decided);
  field("run", times.run);
  field("ended", times.ended);
  field("out", times.out);
  field("out_end", times.out_end);
  field("held", times.held);
  field("gone", times.gone);
}

void each_field(Is<ReportItem> auto& item, auto field) {
  field("state", item.state);
  field("is_async", item.is_async);
  field("is_optional", item.is_optional);
  field("what", item.what);
  field("source", item.source);
  field("destination", item.destination);
  field("note", item.note);
  field("bytes_read", item.bytes_read);
  field("bytes_written", item.bytes_written);
  field("files", item.files);
  field("bytes_from_storage", item.bytes_from_storage);
  field("bytes_from_nodes", item.bytes_from_nodes);
  field("begun", item.begun);
  field("read_to", item.read_to);
  field("ended", item.ended);
}

void each_field(Is<NodeReport> auto& report, auto field) {
  field("job", report.job);
  field("restart", report.restart);
  field("uid", report.uid);
  field("node", report.node);
  field("node_index", report.node_index);
  field("node_count", report.node_count);
  field("state", report.state);
  field("outcome", report.outcome);
  field("cause", report.cause);
  field("at", report.at);
  field("omitted", report.omitted);
}

// How long the text of a member can be, printable.
std::size_t longest_text(std::string_view name) {
  if (name == "state" || name == "outcome" || name == "what") return k_word_bytes;
  if (name == "note") return k_note_bytes;
  return name == "cause" ? k_cause_bytes : k_path_bytes;
}

// What others have written is bounded here: texts in length, and large numbers (bytes, files, and
// moments), so that a reader can add them.
template <typename T>
void get(JsonFields& fields, const char* name, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    fields.read_utf8(name, value);
    value = printable_within(value, longest_text(name), Newlines::keep);
  } else {
    fields.read(name, value);
    if constexpr (std::is_same_v<T, std::uint64_t>) value = std::min(value, k_largest_claim);
  }
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The texts are printable, so in UTF-8.
template <typename Record>
void put(Json& json, const Record& record) {
  each_field(record, [&](const char* name, const auto& value) { json[name] = value; });
}

// As many items as `room` has bytes for.
Json items_to_json(const std::vector<ReportItem>& items, std::size_t& room,
                   std::uint32_t& omitted) {
  Json list = Json::array();
  for (const ReportItem& item : items) {
    Json json;
    put(json, item);
    const std::size_t bytes = dump(json).size() + 1;
    if (bytes > room) {
      ++omitted;
      continue;
    }
    room -= bytes;
    list.push_back(std::move(json));
  }
  return list;
}

// A member of items that reports of earlier releases lack.
bool is_later(std::string_view name) {
  return name == "bytes_from_storage" || name == "bytes_from_nodes";
}

template <typename Item>
Result<std::vector<Item>> items_of(const Json& list) {
  std::vector<Item> items;
  for (const Json& json : list) {
    JsonFields fields(json);
    Item& item = items.emplace_back();
    each_field(item, [&](const char* name, auto& value) {
      if (!is_later(name) || fields.has(name)) get(fields, name, value);
    });
    TRY(fields.status());
  }
  return items;
}

}  // namespace

ReportItem report_item(const ItemRecord& record, std::uint64_t from, std::uint64_t to) {
  const auto moment = [&](std::uint64_t claim, std::uint64_t least) {
    return claim == 0 ? 0 : std::clamp(claim, least, std::max(least, to));
  };
  ReportItem item;
  item.state = word_of(k_item_state_words, state_of(record));
  item.is_async = (record.flags & k_item_async) != 0;
  item.is_optional = (record.flags & k_item_optional) != 0;
  item.what = printable_within(field_text(record.what), k_word_bytes);
  item.source = printable_within(field_text(record.source), k_path_bytes);
  item.destination = printable_within(field_text(record.destination), k_path_bytes);
  item.note = printable_within(field_text(record.note), k_note_bytes, Newlines::join);
  item.bytes_read = record.bytes_read;
  item.bytes_written = has_earlier(record) ? record.bytes_in_all : record.bytes_written;
  item.files = has_earlier(record) ? record.files_in_all : record.files;
  item.bytes_from_storage = record.bytes_from_storage;
  item.bytes_from_nodes = record.bytes_from_nodes;
  item.begun = moment(record.begun_ms, from);
  item.read_to = moment(record.read_to_ms, item.begun);
  item.ended = moment(record.ended_ms, std::max(item.begun, item.read_to));
  return item;
}

std::string encode_report(NodeReport report) {
  report.node = printable_within(report.node, k_path_bytes);
  report.cause = printable_within(report.cause, k_cause_bytes, Newlines::join);
  Json json{{"version", k_version}};
  std::size_t room = k_max_report_bytes - k_head_bytes;
  // Outputs come first, since there are fewer of them.
  json["outputs"] = items_to_json(report.outputs, room, report.omitted);
  json["items"] = items_to_json(report.items, room, report.omitted);
  json["pushes"] = to_json_value(report.pushes);
  json["pushes_in_all"] = report.pushes_in_all;
  put(json["times"], report.times);
  put(json, report);
  return dump(json);
}

Result<NodeReport> decode_report(std::string_view text) {
  if (text.size() > k_max_report_bytes) return Error{E2BIG, "it is too long for a report"};
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{EINVAL, "it is not JSON"};
  JsonFields fields(json);
  if (fields.value("version") != k_version) return Error{EINVAL, "a report of another version"};
  NodeReport report;
  each_field(report, [&](const char* name, auto& value) { get(fields, name, value); });
  JsonFields times(fields.value("times"));
  each_field(report.times, [&](const char* name, auto& value) { get(times, name, value); });
  TRY_ASSIGN(report.items, items_of<ReportItem>(fields.list("items")));
  TRY_ASSIGN(report.outputs, items_of<ReportItem>(fields.list("outputs")));
  if (fields.has("pushes")) {  // else of an earlier release
    const Json& pushes = fields.list("pushes");
    if (pushes.size() > k_max_report_pushes) fields.refuse("pushes", "is too long");
    TRY_ASSIGN(report.pushes, items_of<ReportPush>(pushes));
    fields.read("pushes_in_all", report.pushes_in_all);
  }
  TRY(fields.status());
  TRY(times.status());
  return report;
}

}  // namespace nodestage
