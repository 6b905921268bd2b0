#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "common/wire/protocol.hpp"
#include "common/wire/worker_order.hpp"
#include "hex.hpp"
#include "messages.hpp"

using namespace nodestage;

TEST_CASE("every kind has golden bytes of version 1") {
  // In the order of one_of_each().
  // clang-format off
  const std::vector<std::string> golden = {
      "0101010000000200000003000000040000000100000075020000006e310300000000000000020000006e"
      "3102000000020000006e31020000006e320108000000020000002f77020000002f6f0200000000ff",
      "01020100000002000000000100001e000000",
      "010301000000fbffffff010101fa0000002800000007000000040000006e616d65",
      "0104010000000000000000030000",
      "010509000000",
      "0106",
      "010701000000ffffffff020000002f64",
      "010801000000fa00000002000000010000004103000000622f63",
      "01090c000000",
      "0110",
      "01110303000000776879",
      "011203010000000200000003000000040000000000000005000000000000000600000000000000070000"
      "0000000000080000000000000005000000782e746172020000002f64020000006e32",
      "01130200000003000000413d3102000000423d01000000040000006c696e65",
      "01140a00000063617573650a6d6f726500000000",
      "011504040000006b657074",
      "011601000000020000000300000005000000616c696365020000006e310700000073746167696e670000"
      "00000200000003000000776879020000006e32090000002f686f6c642f312e32",
      "0117010000000200000003000000020000006e3100000000020000000500000000000000060000000000"
      "00000107000000000000000800000000000000090000002f686f6c642f312e3201000000030000007768"
      "79",
      "011801000000040000006c696e65",
      "011902030000000500000001000000000000000200000000000000030000000000000004000000000000"
      "000500000000000000010000004103000000746172020000002f73020000002f6403000000776879",
      "011a020000007b7d",
      "010a",
      "010b0100000007000000313030302e6162",
      "011b07000000313030302e6162e803000005000000616c69636503000000746172020000002f73020000"
      "002f6307000000080000000000000009000000000000000a000000000000000b000000000000000c0000"
      "00000000000d000000000000000e0000000100000066",
      "010c01000000fa000000000200000007000000726573756c747303000000612062",
      "010d0100000002000000",
      "011c020000002f7201000000010000006401000000680200000001000000740100000063"};
  // clang-format on
  const auto messages = one_of_each();
  std::set<std::size_t> kinds;
  REQUIRE(golden.size() == messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    kinds.insert(messages[i].index());
    CHECK(hex(encode_message(messages[i])) == golden[i]);
  }
  CHECK(kinds.size() == std::variant_size_v<Message>);
}

TEST_CASE("a request, a part of an answer, and the last of it") {
  const std::vector<Message> parts = {Progress{},   StatusRow{}, HeldRow{},
                                      StatusItem{}, ReportRow{}, CacheRow{}};
  const std::vector<Message> last = {Accepted{}, Refused{},   Ready{},   Failed{},
                                     Ended{},    Recovered{}, PlaceRow{}};
  const auto has = [](const std::vector<Message>& list, const Message& message) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Message& one) { return one.index() == message.index(); });
  };
  for (const Message& message : one_of_each()) {
    CAPTURE(message.index());
    CHECK((role_of(message) == MessageRole::part) == has(parts, message));
    CHECK((role_of(message) == MessageRole::last) == has(last, message));
  }
}

TEST_CASE("every kind there and back") {
  for (const Message& message : one_of_each()) {
    const std::string packet = encode_message(message);
    const auto decoded = decode_message(packet);
    REQUIRE(decoded);
    CHECK(decoded->index() == message.index());
    CHECK(encode_message(*decoded) == packet);
  }
}

TEST_CASE("a packet cut anywhere, or with a byte more, is refused") {
  for (const Message& message : one_of_each()) {
    const std::string packet = encode_message(message);
    for (std::size_t length = 0; length < packet.size(); ++length) {
      CHECK_FALSE(decode_message(std::string_view(packet).substr(0, length)));
    }
    CHECK_FALSE(decode_message(packet + "x"));
  }
}

TEST_CASE("another version and unknown kinds are refused") {
  CHECK(decode_message(std::string("\x02\x10", 2)).error().what.find("version 2") !=
        std::string::npos);
  CHECK_FALSE(decode_message(std::string("\x01\x00", 2)));
  CHECK_FALSE(decode_message(std::string("\x01\xff", 2)));
}

TEST_CASE("a number that is none of an enumeration's values makes a message unreadable") {
  const auto with = [](const Message& message, std::size_t at, char number) {
    std::string packet = encode_message(message);
    packet.at(at) = number;
    return decode_message(packet);
  };
  const Wait wait{1, 2, 1, 0, WaitScope::node, 250, 40, 7, "name"};
  REQUIRE(with(wait, 12, 2));
  for (const char number : {'\0', '\3', '\xff'}) CHECK_FALSE(with(wait, 12, number));
  CHECK_FALSE(with(Refused{RefusalReason::fault, "x"}, 2, 7));
  CHECK_FALSE(with(Progress{}, 2, 5));
  CHECK_FALSE(with(Ended{}, 2, 0));
  CHECK_FALSE(with(StatusItem{}, 2, 4));
  CHECK_FALSE(with(StatusItem{}, 3, 5));
  CHECK_FALSE(with(StatusItem{}, 6, 1));
}

TEST_CASE("a list that claims four billion texts ends at the packet's end") {
  CHECK_FALSE(decode_message(std::string("\x01\x13\xff\xff\xff\xff", 6)));
}

TEST_CASE("a worker's order there and back") {
  WorkerOrder order;
  order.task = WorkerTask::stage_out;
  order.job = 7;
  order.user =
      "al\xef"
      "ce";
  order.directory = "/localscratch/a.7.0";
  order.leave_free_bytes = 1ULL << 40;
  order.extract = {Escaping::skip, Special::keep, 1ULL << 60, 9, true};
  order.outcome = JobOutcome::failure;
  order.array_known = true;
  order.job_name = "n\xff\"\\\n";
  order.ran = false;
  order.delivered = 1ULL << 63;
  order.recover_to = "/d\xff";
  order.keeps_list = true;
  order.push_all = true;
  order.push_items = 1ULL << 63;
  order.push_names = {"a", "b\xff"};
  order.staged_ns = {1'800'000'000'123'456'789, 0};
  const auto decoded = decode_order(encode_order(order));
  REQUIRE(decoded);
  CHECK(decoded->task == order.task);
  CHECK(decoded->user == order.user);
  CHECK(decoded->job_name == order.job_name);
  CHECK(decoded->leave_free_bytes == order.leave_free_bytes);
  CHECK(decoded->extract == order.extract);
  CHECK(decoded->outcome == order.outcome);
  CHECK(decoded->array_known);
  CHECK_FALSE(decoded->ran);
  CHECK(decoded->delivered == order.delivered);
  CHECK(decoded->recover_to == order.recover_to);
  CHECK(decoded->keeps_list);
  CHECK(decoded->push_all);
  CHECK(decoded->push_items == order.push_items);
  CHECK(decoded->push_names == order.push_names);
  CHECK(decoded->staged_ns == order.staged_ns);
  CHECK_FALSE(decode_order("{}"));
  CHECK_FALSE(decode_order("nonsense"));
}

// While a package is upgraded a daemon starts workers of the next release.
TEST_CASE("golden bytes of a worker's order") {
  WorkerOrder order;
  order.task = WorkerTask::stage_out;
  order.job = 7;
  order.user = "al\xef";
  order.directory = "/localscratch/a.7.0";
  order.venv_find_links = {"/w"};
  order.extract.special = Special::keep;
  order.outcome = JobOutcome::failure;
  order.delivered = 1ULL << 63;
  order.keeps_list = true;
  order.push_items = 2;
  order.push_names = {"results"};
  order.staged_ns = {0, 5};
  order.shared = {{1, ShareRole::link, "ab", "/c", "why"}};
  const std::string golden =
      R"({"array_job":4294967295,"array_known":false,"array_task":4294967295,)"
      R"("cache":"","cache_min_age_s":60,"cache_never":[],)"
      R"("delivered":9223372036854775808,"directory":"/localscratch/a.7.0",)"
      R"("extract_escaping":0,"extract_max_entries":1000000000,"extract_max_ratio":50000,)"
      R"("extract_special":1,"extract_xattrs":false,"gid":0,"has_board":false,"is_again":false,"is_urgent":false,"job":7,)"
      R"("job_name":"","keeps_list":true,)"
      R"("leave_free_bytes":0,"lines_to":0,"node":"","node_count":1,"node_index":4294967295,)"
      R"("on_failure":0,"outcome":1,"push_all":false,)"
      R"("push_items":2,"push_names":["results"],"ran":true,"recover_to":"","refuse_outputs":"",)"
      R"("refuse_venv":"","relay_file_systems":[],"relay_first_port":0,"relay_last_port":0,)"
      R"("relay_least_bytes":67108864,"relay_patience_s":10,"relay_plan_s":5,"relay_silence_s":10,)"
      R"("relay_window":4294967296,"restart":0,"sandbox":0,)"
      R"("shared":[{"item":1,"key":"ab","note":"why","path":"/c","role":2}],"staged_ns":[0,5],"start_delay_ms":0,"stdout_path":"",)"
      R"("task":1,"threads":1,"tries":0,"uid":0,"user":"alï","venv_build":0,)"
      R"("venv_find_links":["/w"],"venv_installer":0,"venv_limit_s":3600,)"
      R"("venv_module_init":"","venv_uv":"","work_dir":""})";
  CHECK(encode_order(order) == golden);
  const auto decoded = decode_order(golden);
  REQUIRE(decoded);
  CHECK(encode_order(*decoded) == golden);
}

TEST_CASE("a worker's order lacks what the daemon of an earlier release did not know") {
  WorkerOrder order;
  order.job = 7;
  order.directory = "/localscratch/a.7.0";
  order.extract.special = Special::keep;
  const auto without = [text = encode_order(order)](const std::string& field) {
    const std::size_t name = text.find("\"" + field + "\":");
    REQUIRE(name != std::string::npos);
    return std::string(text).erase(name, text.find(',', name) + 1 - name);
  };
  const auto earlier = decode_order(without("extract_special"));
  REQUIRE(earlier);
  CHECK(earlier->extract.special == Special::skip);
  CHECK(earlier->job == 7);
  CHECK(earlier->directory == order.directory);
  for (const char* field : {"job", "restart", "gid", "directory"}) {
    CAPTURE(field);
    CHECK_FALSE(decode_order(without(field)));
  }
}

TEST_CASE("a number that its field cannot hold makes a worker's order unreadable") {
  const std::string good = encode_order(WorkerOrder{});
  const auto with = [&good](const std::string& field, const std::string& number) {
    std::string text = good;
    const std::size_t value = text.find("\"" + field + "\":") + field.size() + 3;
    return text.replace(value, text.find_first_of(",}", value) - value, number);
  };
  REQUIRE(decode_order(with("job", "4294967295")));
  for (const char* number :
       {"4294967296", "-1", "1.5", "1e40", "11111111111111111111111", "true"}) {
    CAPTURE(number);
    CHECK_FALSE(decode_order(with("job", number)));
  }
  CHECK_FALSE(decode_order(with("task", "1e40")));
  CHECK(decode_order(with("task", "11")));
  for (const char* number : {"12", "-1", "4294967296"})
    CHECK_FALSE(decode_order(with("task", number)));
  CHECK_FALSE(decode_order(with("extract_special", "2")));
  CHECK_FALSE(decode_order(with("leave_free_bytes", "-1")));
}
