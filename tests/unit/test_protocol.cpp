#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "common/wire/daemon_about.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/worker_order.hpp"
#include "hex.hpp"
#include "messages.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("every kind has golden bytes of version 1") {
  // In the order of one_of_each().
  // clang-format off
  const std::vector<std::string> golden = {
      "0101010000000200000003000000040000000100000075020000006e310300000000000000020000006e"
      "3102000000020000006e31020000006e320108000000020000002f77020000002f6f0200000000ff0c00"
      "0000",
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
      "00000000000d000000000000000e00000001000000660f0000001000000011000000",
      "010c01000000fa000000000200000007000000726573756c747303000000612062",
      "010d0100000002000000",
      "011c020000002f7201000000010000006401000000680200000001000000740100000063010000000200"
      "00003132",
      "010e01000000020000000100000078"};
  // clang-format on
  const auto messages = one_of_each();
  std::set<std::size_t> kinds;
  REQUIRE(golden.size() == messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    kinds.insert(messages[i].index());
    CHECK(hex(encode_message(messages[i])) == golden[i]);
  }
  CHECK(kinds.size() == std::variant_size_v<MessageKinds>);
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

TEST_CASE("each kind of message is decoded as it was encoded") {
  for (const Message& message : one_of_each()) {
    const std::string packet = encode_message(message);
    const auto decoded = must(decode_message(packet));
    CHECK(decoded.index() == message.index());
    CHECK(encode_message(decoded) == packet);
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
  CHECK(has(decode_message(std::string("\x02\x10", 2)).error().what, "version 2"));
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

TEST_CASE("a worker's order is decoded as it was encoded") {
  PushOrder order;
  order.job = 7;
  order.user =
      "al\xef"
      "ce";
  order.directory = "/localscratch/a.7.0";
  order.outcome = JobOutcome::failure;
  order.array_known = true;
  order.job_name = "n\xff\"\\\n";
  order.ran = false;
  order.delivered = 1ULL << 63;
  order.keeps_list = true;
  order.push_all = true;
  order.push_items = 1ULL << 63;
  order.push_names = {"a", "b\xff"};
  order.staged_ns = {1'800'000'000'123'456'789, 0};
  const auto decoded = must(decode_order(encode_order(order)));
  const auto* push = std::get_if<PushOrder>(&decoded);
  REQUIRE(push != nullptr);
  CHECK(push->user == order.user);
  CHECK(push->job_name == order.job_name);
  CHECK(push->outcome == order.outcome);
  CHECK(push->array_known);
  CHECK_FALSE(push->ran);
  CHECK(push->delivered == order.delivered);
  CHECK(push->keeps_list);
  CHECK(push->push_all);
  CHECK(push->push_items == order.push_items);
  CHECK(push->push_names == order.push_names);
  CHECK(push->staged_ns == order.staged_ns);
  CHECK(must(decode_stage_out(encode_order(order))).delivered == order.delivered);
  for (const char* text : {"{}", "nonsense", "[]", R"({"task":1})"}) {
    CAPTURE(text);
    CHECK_FALSE(decode_order(text));
    CHECK_FALSE(decode_stage_out(text));
  }
}

TEST_CASE("an order for each task is blank, and is for that task") {
  for (std::uint64_t number = 0; const auto task = to_enum<WorkerTask>(number); ++number) {
    WorkerOrder order = blank_order(*task);
    CHECK(task_of(order) == *task);
    CHECK(head_of(order).node_index == k_no_number);
    const bool delivers = *task == WorkerTask::stage_out || *task == WorkerTask::push ||
                          *task == WorkerTask::recover || *task == WorkerTask::measure;
    CHECK((delivery_of(order) != nullptr) == delivers);
  }
}

// While a package is upgraded a daemon starts workers of the next release. Release 0.1.0 wrote the
// fields of all tasks into each order.
TEST_CASE("golden bytes of the workers' orders: the fields of 0.1.0 that each task needs") {
  const auto earlier = nlohmann::json::parse(
      R"({"for_readers":true,"hands_over":true,"only_items":[3],"array_job":4294967295,"array_known":true,"array_task":3,)"
      R"("image_mounts":["/i/0"],"image_refusal":"n","images":2,)"
      R"("cache":"/c","cache_min_age_s":61,"cache_never":["/n"],)"
      R"("delivered":9223372036854775808,"directory":"/localscratch/a.7.0",)"
      R"("extract_escaping":1,"extract_max_entries":1000000001,"extract_max_ratio":50001,)"
      R"("extract_special":1,"extract_xattrs":true,"gid":5,"has_board":true,"held_since":26,"is_again":true,"is_urgent":true,"job":7,)"
      R"("job_name":"train","keeps_list":true,)"
      R"("leave_free_bytes":9,"lines_to":1,"memory_directory":"/m","memory_most":20,)"
      R"("memory_refusal":"m","memory_share":21,"node":"n1","node_count":2,"node_index":1,)"
      R"("on_failure":1,"outcome":1,"output_job":6,"push_all":true,)"
      R"("only_groups":[20100],"push_items":2,"push_names":["results","b\u00ff"],"ran":false,"recover_to":"/d\u00ff","refuse_outputs":"o",)"
      R"("refuse_user":"u","refuse_venv":"v","relay_file_systems":["nfs"],"relay_first_port":11,"relay_last_port":12,)"
      R"("relay_least_bytes":67108865,"relay_patience_s":13,"relay_plan_s":14,"relay_silence_s":15,)"
      R"("relay_site_rate":22,"relay_window":4294967297,"restart":1,"sandbox":1,)"
      R"("shows_total":true,"shared":[{"bytes":23,"elapsed_ms":24,"files":25,"for_readers":true,"item":1,"key":"ab","note":"why","path":"/c","role":2}],"staged_ns":[0,5],"start_delay_ms":16,"stdout_path":"/o",)"
      R"("threads":17,"tries":18,"uid":19,"user":"al\u00ef","venv_build":2,)"
      R"("venv_find_links":["/w"],"venv_installer":1,"venv_limit_s":3601,)"
      R"("venv_module_init":"/i","venv_uv":"/u","work_dir":"/x"})");
  const std::string head =
      "task job restart uid gid user node node_index node_count directory threads";
  const std::string names = " job_name array_job array_task array_known";
  const std::string delivery =
      names + " outcome ran work_dir delivered tries held_since keeps_list staged_ns";
  const std::string relay =
      " sandbox has_board relay_least_bytes relay_window relay_file_systems relay_silence_s "
      "relay_patience_s relay_plan_s relay_first_port relay_last_port relay_site_rate";
  const std::string identify =
      names +
      " extract_escaping extract_special extract_max_entries extract_max_ratio extract_xattrs "
      "venv_build venv_installer venv_find_links venv_uv venv_module_init venv_limit_s cache "
      "cache_never cache_min_age_s for_readers hands_over only_items only_groups "
      "refuse_user";
  const std::string stage =
      " leave_free_bytes start_delay_ms on_failure refuse_outputs refuse_venv shared is_again "
      "memory_directory memory_refusal memory_share memory_most image_mounts image_refusal";
  const std::string notice = names + " stdout_path work_dir";
  const std::vector<std::string> fields = {identify + stage + relay,
                                           delivery,
                                           " is_urgent",
                                           delivery,
                                           notice,
                                           delivery + " recover_to",
                                           "",
                                           identify,
                                           "",
                                           delivery + " push_all push_items push_names shows_total",
                                           relay,
                                           notice + " lines_to output_job",
                                           identify,
                                           identify + stage + relay,
                                           " sandbox images"};
  for (std::size_t task = 0; task < fields.size(); ++task) {
    CAPTURE(task);
    auto whole = earlier;
    whole["task"] = task;
    nlohmann::json golden;
    std::istringstream words(head + fields[task]);
    for (std::string name; words >> name;) golden[name] = whole.at(name);
    CHECK(encode_order(must(decode_order(whole.dump()))) == golden.dump());
    CHECK(encode_order(must(decode_order(golden.dump()))) == golden.dump());
  }
}

TEST_CASE("a worker's order lacks what the daemon of an earlier release did not know") {
  StageOrder order;
  order.job = 7;
  order.directory = "/localscratch/a.7.0";
  order.extract.special = Special::keep;
  const auto without = [text = encode_order(order)](const std::string& field) {
    const std::size_t name = text.find("\"" + field + "\":");
    REQUIRE(name != std::string::npos);
    return std::string(text).erase(name, text.find(',', name) + 1 - name);
  };
  const auto earlier = must(decode_order(without("extract_special")));
  CHECK(std::get<StageOrder>(earlier).extract.special == Special::skip);
  CHECK(head_of(earlier).job == 7);
  // Nor did it know of what is shared for all readers.
  order.shared.push_back({0, ShareRole::link, "ab", "/c", "", true});
  const auto for_one =
      decode_order(nlohmann::json::parse(encode_order(order))
                       .patch({{{"op", "remove"}, {"path", "/shared/0/for_readers"}},
                               {{"op", "remove"}, {"path", "/shared/0/files"}}})
                       .dump());
  REQUIRE(for_one);
  CHECK_FALSE(std::get<StageOrder>(*for_one).shared.at(0).for_readers);
  CHECK(head_of(earlier).directory == order.directory);
  for (const char* field : {"task", "job", "restart", "gid", "directory"})
    CHECK_FALSE_MESSAGE(decode_order(without(field)), field);
}

TEST_CASE("a number that its field cannot hold makes a worker's order unreadable") {
  const std::string good = encode_order(StageOrder());
  const auto with = [&good](const std::string& field, const std::string& number) {
    std::string text = good;
    const std::size_t value = text.find("\"" + field + "\":") + field.size() + 3;
    return text.replace(value, text.find_first_of(",}", value) - value, number);
  };
  REQUIRE(decode_order(with("job", "4294967295")));
  for (const char* number : {"4294967296", "-1", "1.5", "1e40", "11111111111111111111111", "true"})
    CHECK_FALSE_MESSAGE(decode_order(with("job", number)), number);
  CHECK_FALSE(decode_order(with("task", "1e40")));
  CHECK(decode_order(with("task", "14")));
  for (const char* number : {"15", "-1", "4294967296"})
    CHECK_FALSE(decode_order(with("task", number)));
  CHECK_FALSE(decode_order(with("extract_special", "2")));
  CHECK_FALSE(decode_order(with("leave_free_bytes", "-1")));
}

TEST_CASE("the encoding of what a daemon tells about itself does not change") {
  const DaemonAbout about{"0.1.0",
                          "/localscratch",
                          1 << 30,
                          600,
                          "memory, pids",
                          true,
                          {SandboxState::Kind::fault, "seccomp: not permitted"},
                          true,
                          60,
                          {CredentialState::Kind::holds, "MUNGE"}};
  const std::string text =
      "version=0.1.0\ntmpdir=/localscratch\nleave_free=1073741824\nepilog_wait=600\n"
      "no_cgroups=memory, pids\ncgroups_in_unit=1\nsandbox=fault: seccomp: not "
      "permitted\nsandbox_required=1\nleast_interval=60\ncredentials=holds: MUNGE\n";
  CHECK(encode_about(about) == text);
  CHECK(decode_about(text) == about);
}

TEST_CASE("about: what is not known or not whole is passed over") {
  const DaemonAbout about = decode_about("later=1\n\nversion=2=3\nleave_free=x\ntmpdir");
  CHECK(about == DaemonAbout{"2=3", "", 0, 0, "", false, {}, false, 0, {}});
  CHECK(decode_about("sandbox=holds\n").sandbox.kind == SandboxState::Kind::holds);
  CHECK(decode_about("sandbox=\n").sandbox == SandboxState{});
  CHECK(decode_about("sandbox=holds out\n").sandbox == SandboxState{});
  CHECK(decode_about("") == DaemonAbout{});
}
