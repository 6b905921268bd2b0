#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "common/os/wall_clock.hpp"
#include "common/wire/node_report.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

NodeReport full_report() {
  NodeReport report{.job = 12,
                    .restart = 1,
                    .uid = 1000,
                    .node = "n1",
                    .node_index = 0,
                    .node_count = 2,
                    .state = "done",
                    .outcome = "success",
                    .cause = "why",
                    .at = 1'700'000'100'000,
                    .times = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
  report.items.push_back({"done", true, false, "tar.gz", "/p/d\xc3\xa4ta.tar.gz", "/l/data", "note",
                          1, 2, 3, 4, 5, 6, 7, 8});
  report.outputs.push_back(
      {"failed", false, true, "", "res", "/scratch/x", "", 0, 0, 0, 0, 0, 7, 0, 8});
  report.pushes = {{10, 20, 30, 40, false}, {50, 60, 0, 0, true}};
  report.pushes_in_all = 7;
  return report;
}

bool is_shown(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

}  // namespace

TEST_CASE("a report there and back, on one line") {
  const NodeReport report = full_report();
  const std::string json = encode_report(report);
  CHECK(json.find('\n') == std::string::npos);
  CHECK(must(decode_report(json)) == report);
}

TEST_CASE("what is no report is a fault") {
  const std::string json = encode_report(full_report());
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), json.substr(0, json.size() / 2)})
    CHECK_FALSE(decode_report(text));
  const auto with = [&json](const std::string& from, const std::string& to) {
    std::string text = json;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return decode_report(text.replace(at, from.size(), to));
  };
  CHECK(with("\"job\":12", "\"job\":13"));
  CHECK_FALSE(with("\"version\":1", "\"version\":2"));
  CHECK_FALSE(with("\"job\":12", "\"job\":-1"));
  CHECK_FALSE(with("\"job\":12", "\"job\":4294967296"));
  CHECK_FALSE(with("\"job\":12", "\"job\":\"12\""));
  CHECK_FALSE(with("\"node\":\"n1\"", "\"node\":1"));
  CHECK_FALSE(with("\"is_async\":true", "\"is_async\":1"));
}

TEST_CASE("the deliveries of a report are objects; a report of an earlier release has none") {
  std::string json = encode_report(full_report());
  const std::string pushes =
      R"("pushes":[{"begun":10,"bytes_written":30,"ended":20,"files":40,"has_failed":false},)"
      R"({"begun":50,"bytes_written":0,"ended":60,"files":0,"has_failed":true}],"pushes_in_all":7,)";
  const std::size_t at = json.find(pushes);
  REQUIRE(at != std::string::npos);
  json.erase(at, pushes.size());
  const auto earlier = must(decode_report(json));
  CHECK(earlier.pushes.empty());
  CHECK(earlier.pushes_in_all == 0);
  for (const char* wrong : {"7", "[7]", "[{}]", R"({"a":{}})"})
    CHECK_FALSE(decode_report(std::string(json).insert(
        at, "\"pushes\":" + std::string(wrong) + ",\"pushes_in_all\":7,")));
}

TEST_CASE("a report of an earlier release does not say where its items' bytes came from") {
  std::string json = encode_report(full_report());
  for (const char* member : {R"("bytes_from_nodes":5,)", R"("bytes_from_storage":4,)"}) {
    const std::size_t at = json.find(member);
    REQUIRE(at != std::string::npos);
    json.erase(at, std::strlen(member));
  }
  const auto earlier = must(decode_report(json));
  CHECK(earlier.items[0].bytes_from_storage == 0);
  CHECK(earlier.items[0].bytes_from_nodes == 0);
  CHECK(earlier.items[0].files == 3);
}

TEST_CASE("what came through others' hands is printable") {
  std::string json = encode_report(full_report());
  const std::string from = "\"note\":\"note\"";
  json.replace(json.find(from), from.size(), R"("note":"\u001b[2J\u0007")");
  CHECK(must(decode_report(json)).items[0].note == "\\x1b[2J\\x07");
}

TEST_CASE("claims of a worker: texts are short and printable, times within the job's") {
  ItemRecord record{};
  std::memset(&record, 0xff, sizeof record);
  record.state = static_cast<std::uint32_t>(ItemState::failed);
  const ReportItem item = report_item(record, 1000, 2000);
  CHECK(item.state == "failed");
  for (const std::string* text : {&item.what, &item.source, &item.destination, &item.note}) {
    CHECK(text->size() < 500);
    CHECK(is_shown(*text));
  }
  CHECK(item.begun == 2000);
  CHECK(item.ended == 2000);

  record.bytes_from_storage = 11;
  record.bytes_from_nodes = 12;
  CHECK(report_item(record, 1000, 2000).bytes_from_storage == 11);
  CHECK(report_item(record, 1000, 2000).bytes_from_nodes == 12);

  record.begun_ms = 1;
  record.read_to_ms = 1500;
  record.ended_ms = 1200;
  const ReportItem moved = report_item(record, 1000, 2000);
  CHECK(moved.begun == 1000);
  CHECK(moved.read_to == 1500);
  CHECK(moved.ended == 1500);
  record.begun_ms = record.read_to_ms = record.ended_ms = 0;
  CHECK(report_item(record, 1000, 2000).begun == 0);
  CHECK(report_item(record, 1000, 2000).ended == 0);
  // A clock that was set back.
  record.begun_ms = 1500;
  CHECK(report_item(record, 3000, 2000).begun == 3000);
}

TEST_CASE("a report is never larger than its bound, and says what it leaves out") {
  NodeReport report = full_report();
  ItemRecord record{};
  std::memset(&record, 0x01, sizeof record);
  record.state = 0;
  report.items.assign(64, report_item(record, 0, 1));
  report.outputs = report.items;
  report.cause.assign(100'000, '\x02');
  const std::string json = encode_report(report);
  CHECK(json.size() <= k_max_report_bytes);
  const auto back = must(decode_report(json));
  CHECK(back.omitted > 0);
  CHECK(back.omitted + back.items.size() + back.outputs.size() == 128);
}

TEST_CASE("a report of forty ordinary items is whole") {
  NodeReport report = full_report();
  report.items.assign(40, report.items[0]);
  for (auto& item : report.items)
    item.source = item.destination = "/project/" + std::string(120, 'x');
  CHECK(decode_report(encode_report(report))->items.size() == 40);
}

TEST_CASE("a moment of the steady clock is always told as the same number") {
  const auto moment = std::chrono::steady_clock::now();
  const std::uint64_t told = wall_ms(moment);
  CHECK(wall_ms(moment) == told);
  CHECK(wall_ms(moment + std::chrono::seconds(5)) == told + 5000);
  CHECK(wall_ms(moment - std::chrono::seconds(5)) == told - 5000);
}
