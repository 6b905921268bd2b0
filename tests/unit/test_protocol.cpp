#include <doctest/doctest.h>

#include "common/wire/protocol.hpp"
#include "common/wire/worker_order.hpp"
#include "hex.hpp"

using namespace nodestage;

namespace {

std::vector<Message> one_of_each() {
  return {Begin{1,
                2,
                3,
                4,
                "u",
                "n1",
                3,
                0,
                "n1",
                {"n1", "n2"},
                1,
                8,
                "/w",
                "/o",
                std::string("\0\xff", 2)},
          End{1, 2, 256, 30},
          Wait{1, 0xfffffffb, 1, 1, WaitScope::node, 250, 40, 7, "name"},
          Exited{1, 0, 768},
          StatusQuery{9},
          HeldQuery{},
          Recover{1, k_no_number, "/d"},
          Await{1, 250, {"A", "b/c"}},
          ReportQuery{12},
          Accepted{},
          Refused{RefusalReason::unknown_job, "why"},
          Progress{ProgressPhase::staging, 1, 2, 3, 4, 5, 6, 7, 8, "x.tar", "/d", "n2"},
          Ready{{"A=1", "B="}, {"line"}},
          Failed{"cause\nmore", {}},
          Ended{EndOutcome::held, "kept"},
          StatusRow{1, 2, 3, "alice", "n1", "staging", 1ULL << 33, "why", "n2", "/hold/1.2"},
          HeldRow{1, 2, 3, "n1", 1ULL << 33, 5, 6, 1, 7, 8, "/hold/1.2", {"why"}},
          Recovered{{"line"}},
          StatusItem{ItemKind::venv, ItemState::failed, 5, 1, 2, 3, 4, 5, "A", "tar", "/s", "/d",
                     "why"},
          ReportRow{"{}"},
          CacheQuery{},
          CacheDrop{{"1000.ab"}},
          CacheRow{"1000.ab", 1000, "alice", "tar", "/s", "/c", 7, 8, 9, 10, 11, 12, 13, 14, "f"},
          Push{1, 250, 0, {"results", "a b"}},
          PlaceQuery{1, 2},
          PlaceRow{"/r", {"d"}, "h", {"t", "c"}}};
}

}  // namespace

TEST_CASE("golden bytes of version 1") {
  CHECK(hex(encode_message(End{1, 2, 256, 30})) ==
        "0102010000000200000000010000"
        "1e000000");
  CHECK(hex(encode_message(Refused{RefusalReason::malformed, "ab"})) == "011101020000006162");
  CHECK(hex(encode_message(Ready{{"A=1"}, {}})) == "01130100000003000000413d3100000000");
  CHECK(hex(encode_message(Accepted{})) == "0110");
  CHECK(hex(encode_message(Recover{1, 2, "/d"})) == "01070100000002000000020000002f64");
  CHECK(hex(encode_message(Await{1, 250, {"AB"}})) == "010801000000fa00000001000000020000004142");
  CHECK(hex(encode_message(HeldQuery{})) == "0106");
  CHECK(hex(encode_message(StatusItem{ItemKind::output, ItemState::done, 1, 2, 3, 4, 5, 6, "N", "w",
                                      "s", "d", "n"})) ==
        "011903"
        "0200000001000000"
        "02000000000000000300000000000000"
        "04000000000000000500000000000000"
        "0600000000000000"
        "010000004e01000000770100000073"
        "0100000064010000006e");
  CHECK(hex(encode_message(StatusRow{1, 2, 3, "u", "n", "s", 4, "c", "o", "k"})) ==
        "0116"
        "010000000200000003000000"
        "0100000075010000006e0100000073"
        "0400000000000000"
        "0100000063010000006f010000006b");
  CHECK(hex(encode_message(ReportQuery{12})) == "01090c000000");
  CHECK(hex(encode_message(ReportRow{"{}"})) == "011a020000007b7d");
  CHECK(hex(encode_message(CacheQuery{})) == "010a");
  CHECK(hex(encode_message(CacheDrop{{"a"}})) == "010b010000000100000061");
  CHECK(hex(encode_message(CacheRow{"n", 1, "u", "w", "s", "p", 2, 3, 4, 5, 6, 7, 8, 9, "f"})) ==
        "011b"
        "010000006e01000000"
        "01000000750100000077010000007301000000700200000003000000000000"
        "000400000000000000050000000000000006000000000000000700000000000000080000"
        "00000000000900000001000000"
        "66");
  CHECK(hex(encode_message(Push{1, 250, 1, {"AB"}})) ==
        "010c01000000fa0000000101000000020000004142");
  CHECK(hex(encode_message(PlaceQuery{12, 3})) == "010d0c00000003000000");
  CHECK(hex(encode_message(PlaceRow{"r", {"d"}, "h", {"t"}})) ==
        "011c0100000072010000000100000064010000006801000000"
        "0100000074");
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
