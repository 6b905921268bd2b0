// Results that are delivered while their job runs: when, for whom, and what a push that fails,
// hangs or outlives its job does. Without root and worker processes.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "daemon/root/push/push_answer.hpp"
#include "daemon/root/push/push_plan.hpp"
#include "job_site.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t k_job = 7;

ItemRecord output(const char* source, ItemState state, std::uint32_t flags = 0,
                  const char* note = "") {
  ItemRecord item{};
  set_field(item.source, source);
  set_field(item.destination, "/scratch/out");
  set_field(item.note, note);
  item.state = static_cast<std::uint32_t>(state);
  item.flags = flags;
  item.files = state == ItemState::done ? 3 : 0;
  item.bytes_written = item.files * 10;
  return item;
}

struct PushSite : JobSite {
  void run_job(std::vector<std::uint32_t> every_s = {}) {
    workers.every_s = std::move(every_s);
    REQUIRE(std::holds_alternative<Accepted>(jobs->begin(request(k_job))));
    REQUIRE(workers.say(WorkerTask::stage, k_job, WorkerPhase::done, {}));
    REQUIRE(workers.end(WorkerTask::stage));
    wait(k_job);
    REQUIRE(state_of(k_job) == "ready");
    answers.clear();
  }
  Ticket push(std::vector<std::string> names = {}, std::uint8_t waits = 1) {
    return jobs->push({k_job, 1000, waits, std::move(names)}, reply);
  }
  [[nodiscard]] const WorkerOrder* order() {
    const auto* started = workers.find(WorkerTask::push);
    return started == nullptr ? nullptr : &started->order;
  }
  void finish(WorkerPhase phase, const std::vector<ItemRecord>& items,
              const WorkerEnd& how = {WorkerEnd::Kind::ended, "ended with code 0"}) {
    REQUIRE(workers.say(WorkerTask::push, k_job, phase, items));
    REQUIRE(workers.end(WorkerTask::push, how));
  }
  void finish() { finish(WorkerPhase::done, {output("results", ItemState::done)}); }
  template <typename Kind>
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(answers.begin(), answers.end(),
                      [](const Message& m) { return std::holds_alternative<Kind>(m); }));
  }
  // Ends the push under way, if there is one; whether there was.
  bool finish_one() {
    if (order() == nullptr) return false;
    finish();
    return true;
  }
  // The text of the user's last notice; "" if none was written since the last call.
  std::string notice() {
    auto* started = workers.find(WorkerTask::notice);
    if (started == nullptr) return "";
    const std::string text = started->request;
    workers.end(WorkerTask::notice);
    return text;
  }
};

}  // namespace

TEST_CASE("a push is answered when its worker has delivered") {
  PushSite site;
  site.run_job();
  CHECK(site.push() != 0);
  REQUIRE(site.order() != nullptr);
  CHECK(site.order()->push_all);
  CHECK(site.order()->keeps_list);
  CHECK(site.count<Ready>() == 0);
  site.finish();
  REQUIRE(site.count<Ready>() == 1);
  const auto& lines = std::get<Ready>(site.answers.back()).lines;
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("results -> /scratch/out: 3 files"));
  CHECK(site.order() == nullptr);
}

TEST_CASE("who does not wait is answered at once, and delivered for") {
  PushSite site;
  site.run_job();
  CHECK(site.push({}, 0) == 0);
  CHECK(site.count<Accepted>() == 1);
  CHECK(site.finish_one());
  CHECK(site.count<Ready>() == 0);
}

TEST_CASE("calls during a push wait for the next one, all for the same") {
  PushSite site;
  site.run_job();
  site.push({"a"});
  REQUIRE(site.order() != nullptr);
  CHECK(site.order()->push_names == std::vector<std::string>{"a"});
  CHECK_FALSE(site.order()->push_all);
  site.push({"b"});
  site.push({"c"});
  site.finish(WorkerPhase::done, {output("a", ItemState::done), output("b", ItemState::skipped),
                                  output("c", ItemState::skipped)});
  CHECK(site.count<Ready>() == 1);
  REQUIRE(site.order() != nullptr);
  CHECK(site.order()->push_names == std::vector<std::string>{"b", "c"});
  site.finish(WorkerPhase::done, {output("a", ItemState::skipped), output("b", ItemState::done),
                                  output("c", ItemState::done)});
  CHECK(site.count<Ready>() == 3);
  CHECK(site.order() == nullptr);
}

TEST_CASE("what was being written is not there yet") {
  PushSite site;
  site.run_job();
  site.push();
  site.finish(WorkerPhase::done,
              {output("results", ItemState::done, k_item_unsettled, "1 file was being written")});
  REQUIRE(site.count<Failed>() == 1);
  CHECK(std::get<Failed>(site.answers.back()).cause == "results: 1 file was being written");
  CHECK(site.notice().empty());
}

TEST_CASE("names that the job does not have, and jobs without outputs") {
  PushSite site;
  site.run_job();
  site.push({"reslts"});
  site.finish(WorkerPhase::done, {output("results", ItemState::skipped)});
  REQUIRE(site.count<Refused>() == 1);
  CHECK(std::get<Refused>(site.answers.back()).reason == RefusalReason::unknown_name);
  CHECK(std::get<Refused>(site.answers.back()).what ==
        "the job has no output 'reslts'; the sources of its --stage-out: 'results'");
  site.push();
  site.finish(WorkerPhase::done, {});
  CHECK(site.count<Refused>() == 2);
  site.jobs->push({99, 1000, 1, {}}, site.reply);
  CHECK(site.count<Refused>() == 3);
}

TEST_CASE("a push that fails tells its caller the cause, and nobody else") {
  PushSite site;
  site.run_job();
  site.push();
  site.finish(WorkerPhase::failed,
              {output("results", ItemState::failed, 0, "a.pt: No space left on device")});
  REQUIRE(site.count<Failed>() == 1);
  CHECK(std::get<Failed>(site.answers.back()).cause == "results: a.pt: No space left on device");
  CHECK(site.notice().empty());
  CHECK(site.state_of(k_job) == "ready");
}

TEST_CASE("the intervals begin within the first and go on") {
  PushSite site;
  site.run_job({0, 900});
  CHECK(site.order() == nullptr);
  site.pass(900s);
  REQUIRE(site.order() != nullptr);
  CHECK(site.order()->push_items == 2);
  CHECK_FALSE(site.order()->push_all);
  site.finish();
  CHECK(site.order() == nullptr);
  site.pass(700s);
  CHECK(site.order() == nullptr);
  site.pass(201s);
  CHECK(site.finish_one());
}

TEST_CASE("an interval that is too short is raised") {
  PushSite site;
  site.config.stageout.least_interval_s = 600;
  site.run_job({1});
  site.pass(500s);
  CHECK(site.order() == nullptr);
  site.pass(101s);
  CHECK(site.finish_one());
}

TEST_CASE("pushes at intervals that fail: one notice, and one when they succeed again") {
  PushSite site;
  site.run_job({60});
  const auto fail = [&] {
    site.pass(61s);
    REQUIRE(site.order() != nullptr);
    REQUIRE(site.workers.say(WorkerTask::push, WorkerPhase::failed, "the quota is full\nadvice"));
    REQUIRE(site.workers.end(WorkerTask::push));
  };
  fail();
  CHECK(site.notice().find("the quota is full") != std::string::npos);
  fail();
  CHECK(site.notice().empty());
  site.pass(61s);
  site.finish();
  CHECK(site.notice().find("delivered again") != std::string::npos);
  site.pass(61s);
  site.finish();
  CHECK(site.notice().empty());
  CHECK(site.jobs->metrics().counters.pushes.results == std::array<std::uint64_t, 3>{2, 0, 2});
}

TEST_CASE("an output that succeeds says nothing of another that fails") {
  PushSite site;
  site.run_job({60, 90});
  const auto push_one = [&](std::uint64_t item, ItemState state) {
    for (int i = 0; i < 100 && site.order() == nullptr; ++i) site.pass(1s);
    REQUIRE(site.order() != nullptr);
    REQUIRE(site.order()->push_items == item);
    const bool is_a = item == 1;
    site.finish(state == ItemState::failed ? WorkerPhase::failed : WorkerPhase::done,
                {output("a", is_a ? state : ItemState::skipped),
                 output("b", is_a ? ItemState::skipped : state)});
    return site.notice();
  };
  CHECK(push_one(1, ItemState::failed) != "");
  CHECK(push_one(2, ItemState::done) == "");
  CHECK(push_one(1, ItemState::failed) == "");
  CHECK(push_one(2, ItemState::done) == "");
  CHECK(push_one(1, ItemState::done).find("delivered again") != std::string::npos);
}

TEST_CASE("a notice about a failed push is taken back when the job's end delivers all") {
  PushSite site;
  site.run_job({60});
  site.pass(61s);
  REQUIRE(site.workers.say(WorkerTask::push, WorkerPhase::failed, "the quota is full"));
  REQUIRE(site.workers.end(WorkerTask::push));
  CHECK(site.notice() != "");
  site.end(k_job);
  REQUIRE(site.workers.say(WorkerTask::stage_out, k_job, WorkerPhase::done,
                           {output("a", ItemState::done)}));
  REQUIRE(site.workers.end(WorkerTask::stage_out));
  CHECK(site.notice().find("are delivered now") != std::string::npos);
}

TEST_CASE("a push without progress is given up, and the next one starts") {
  PushSite site;
  site.config.stageout.push_stall_s = 80;
  site.run_job();
  site.push();
  const auto id = site.workers.find(WorkerTask::push)->id;
  site.pass(70s);
  CHECK(site.workers.killed.empty());
  REQUIRE(site.workers.say(WorkerTask::push, k_job, WorkerPhase::working,
                           {output("results", ItemState::done)}));
  site.pass(70s);  // it has moved
  CHECK(site.workers.killed.empty());
  site.push();
  site.pass(100s);
  REQUIRE(site.workers.killed == std::vector<Workers::Id>{id});
  REQUIRE(site.workers.end(WorkerTask::push, {WorkerEnd::Kind::stuck, "hangs"}));
  REQUIRE(site.count<Failed>() == 1);
  CHECK(site.count<Ready>() == 0);
  CHECK(site.order() != nullptr);  // for the second caller
}

TEST_CASE("the end of the job stops a push, and the stage-out waits for its exit") {
  PushSite site;
  site.run_job({60});
  site.push();
  const auto id = site.workers.find(WorkerTask::push)->id;
  site.end(k_job);
  CHECK(site.workers.killed == std::vector<Workers::Id>{id});
  CHECK(site.count<Failed>() == 1);
  CHECK(site.state_of(k_job) == "stopping");
  CHECK(site.workers.find(WorkerTask::stage_out) == nullptr);
  REQUIRE(site.workers.end(WorkerTask::push, {WorkerEnd::Kind::ended, "was killed by signal 9"}));
  REQUIRE(site.workers.find(WorkerTask::stage_out) != nullptr);
  CHECK(site.workers.find(WorkerTask::stage_out)->order.keeps_list);
  CHECK(site.notice().empty());
  REQUIRE(site.workers.say(WorkerTask::stage_out, WorkerPhase::done));
  REQUIRE(site.workers.end(WorkerTask::stage_out));
  CHECK(site.state_of(k_job).empty());
  site.pass(500s);
  CHECK(site.order() == nullptr);
  // Nothing of the job is left but its record.
  CHECK(std::filesystem::is_empty(site.scratch / ".nodestage/status"));
}

TEST_CASE("staging and a push that end after the job: the stage-out starts once, after both") {
  for (const bool push_is_first : {true, false}) {
    CAPTURE(push_is_first);
    PushSite site;
    REQUIRE(std::holds_alternative<Accepted>(site.jobs->begin(site.request(k_job))));
    REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::ready, {}));
    site.wait(k_job);
    site.pass(1s);
    REQUIRE(site.state_of(k_job) == "ready");
    site.push();
    site.end(k_job);
    const WorkerEnd killed{WorkerEnd::Kind::ended, "was killed by signal 9"};
    REQUIRE(site.workers.end(push_is_first ? WorkerTask::push : WorkerTask::stage, killed));
    CHECK(site.workers.find(WorkerTask::stage_out) == nullptr);
    CHECK(site.state_of(k_job) == "stopping");
    REQUIRE(site.workers.end(push_is_first ? WorkerTask::stage : WorkerTask::push, killed));
    REQUIRE(site.workers.alive.size() == 1);
    CHECK(site.workers.alive.front().order.task == WorkerTask::stage_out);
    CHECK(site.state_of(k_job) == "staging out");
  }
}

TEST_CASE("an epilog that can wait no longer for a push in the site's directory gets an answer") {
  PushSite site;
  site.config.tmpdir.create = CreateDirectory::never;
  REQUIRE(std::holds_alternative<Accepted>(site.jobs->begin(site.request(k_job))));
  const std::string directory = site.scratch / "alice.7.0";
  std::filesystem::create_directory(directory);
  REQUIRE(::chown(directory.c_str(), JobSite::user(), JobSite::group()) == 0);
  REQUIRE(::chmod(directory.c_str(), 0700) == 0);
  site.pass(1s);
  REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::done, {}));
  REQUIRE(site.workers.end(WorkerTask::stage));
  Wait wait;
  wait.job = k_job;
  wait.goes_on = k_runs;
  site.jobs->wait(wait, site.reply);
  // The tree cannot be moved, as if it were a mount.
  std::ofstream(site.scratch / ".nodestage/hold/7.0");
  site.push();
  site.end(k_job);
  REQUIRE(site.state_of(k_job) == "stopping");
  site.pass(std::chrono::seconds(site.config.stageout.epilog_wait_s + 1));
  REQUIRE(site.workers.end(WorkerTask::push, {WorkerEnd::Kind::stuck, "hangs"}));
  CHECK(site.workers.find(WorkerTask::stage_out) == nullptr);
  REQUIRE(site.count<Ended>() == 1);
  CHECK(std::get<Ended>(site.answers.back()).outcome == EndOutcome::lost);
}

TEST_CASE("names that no order has room for are refused, and delay nobody") {
  PushSite site;
  site.run_job();
  CHECK(site.push(std::vector<std::string>(9, std::string(4096, 'a'))) != 0);  // one name
  site.finish();
  site.answers.clear();
  std::vector<std::string> names;
  for (char i = 0; i < 5; ++i)
    names.push_back(std::string(4095, '\x01') + static_cast<char>('a' + i));
  CHECK(site.push(names) == 0);
  REQUIRE(site.count<Refused>() == 1);
  CHECK(std::get<Refused>(site.answers.back()).reason == RefusalReason::malformed);
  CHECK(site.order() == nullptr);
  // What several ask for during a push goes into one order.
  site.push();
  CHECK(site.push({names[0]}) != 0);
  CHECK(site.push({names[1]}) == 0);
  REQUIRE(site.count<Refused>() == 2);
  CHECK(std::get<Refused>(site.answers.back()).reason == RefusalReason::busy);
  site.finish();
  REQUIRE(site.order() != nullptr);
  CHECK(encode_order(*site.order()).size() < 64 * 1024);
}

TEST_CASE("an answer about many outputs with long notes fits into a message") {
  const std::string text(1000, '\x01');
  std::vector<ItemRecord> items;
  for (std::size_t i = 0; i < k_max_request_items; ++i)
    items.push_back(output(text.c_str(), ItemState::failed, 0, text.c_str()));
  WorkerStatus status;
  status.phase = WorkerPhase::failed;
  status.items = items;
  const Message answer = answer_to({}, status, {});
  REQUIRE(std::holds_alternative<Failed>(answer));
  CHECK(encode_message(answer).size() < k_max_message_bytes);
  CHECK(std::get<Failed>(answer).lines.back().find(" more, too long to show") != std::string::npos);
}

TEST_CASE("a restarted daemon goes on with the intervals, and with a job that has ended") {
  PushSite site;
  site.run_job({60});
  site.push();
  site.start_daemon();  // the worker died with it
  CHECK(site.order() == nullptr);
  site.pass(61s);
  CHECK(site.finish_one());
  site.push();
  site.end(k_job);
  CHECK(site.state_of(k_job) == "stopping");
  site.start_daemon();
  CHECK(site.state_of(k_job) == "staging out");
}

TEST_CASE("a push whose worker cannot be started fails, and does not repeat the last one's word") {
  PushSite site;
  site.run_job();
  site.push();
  site.finish();
  site.answers.clear();
  site.workers.is_refusing = true;
  CHECK(site.push() == 0);
  REQUIRE(site.count<Failed>() == 1);
  CHECK(site.count<Ready>() == 0);
  site.workers.is_refusing = false;
  site.push();
  site.finish();
  CHECK(site.count<Ready>() == 1);
}

TEST_CASE("a caller that goes away is not answered, and its push goes on") {
  PushSite site;
  site.run_job();
  const Ticket ticket = site.push();
  site.jobs->leave(ticket);
  const std::size_t before = site.answers.size();
  site.pass(10s);
  CHECK(site.finish_one());
  CHECK(site.answers.size() == before);
}

TEST_CASE("the status shows what was delivered, each output as of its last push") {
  PushSite site;
  site.run_job();
  site.push({"a"});
  ItemRecord done = output("a", ItemState::done);
  done.ended_ms = 1'700'000'000'000;
  site.finish(WorkerPhase::done, {done, output("b", ItemState::skipped)});
  site.push({"b"});
  site.finish(WorkerPhase::done,
              {output("a", ItemState::skipped), output("b", ItemState::failed, 0, "full")});
  const auto status = site.jobs->status(k_job, 0);
  REQUIRE(status.size() == 1);
  REQUIRE(status[0].items.size() == 2);
  CHECK(status[0].items[0].kind == ItemKind::output);
  CHECK(status[0].items[0].note.starts_with("delivered 2023-11-1"));
  CHECK(status[0].items[1].state == ItemState::failed);
  CHECK(status[0].items[1].note == "full");
}

TEST_CASE("the report has the latest pushes, and counts all") {
  PushSite site;
  site.run_job();
  for (std::size_t i = 0; i < k_max_report_pushes + 3; ++i) {
    site.push();
    site.finish();
  }
  site.push();
  site.finish(WorkerPhase::failed, {output("results", ItemState::failed, 0, "full")});
  site.start_daemon();
  const auto reports = site.jobs->reports(k_job, 0);
  REQUIRE(reports.size() == 1);
  const auto report = decode_report(reports[0]);
  REQUIRE(report);
  CHECK(report->pushes_in_all == k_max_report_pushes + 4);
  REQUIRE(report->pushes.size() == k_max_report_pushes);
  CHECK(report->pushes.back().has_failed);
  CHECK_FALSE(report->pushes.front().has_failed);
  CHECK(report->pushes.front().files == 3);
}

TEST_CASE("nodes and jobs take turns within the interval, and none is late") {
  Begin begin;
  begin.node_count = 4;
  std::chrono::milliseconds last{-1};
  for (std::uint32_t i = 0; i < 4; ++i) {
    begin.node_index = i;
    const auto delay = first_delay(begin, 900s);
    CHECK(delay > last);
    CHECK(delay <= 900s);
    last = delay;
  }
  begin.node_count = 1;
  begin.node_index = k_no_number;
  for (begin.job = 1; begin.job < 200; ++begin.job) {
    CHECK(first_delay(begin, 900s) <= 900s);
    CHECK(first_delay(begin, 900s) >= 700s);
  }
  begin.job = 4711;
  const auto one = first_delay(begin, 900s);
  begin.job = 4712;
  CHECK(first_delay(begin, 900s) != one);
}

TEST_CASE("a daemon that is restarted often does not put off what is due") {
  PushSite site;
  site.run_job({900});
  for (int i = 0; i < 8; ++i) {
    site.pass(120s);
    if (site.finish_one()) return;
    site.start_daemon();
  }
  FAIL("nothing was delivered in 16 minutes");
}

TEST_CASE("after a push that hangs in the kernel, the next one by interval comes an hour later") {
  PushSite site;
  site.run_job({60});
  site.pass(61s);
  REQUIRE(site.order() != nullptr);
  REQUIRE(site.workers.end(WorkerTask::push, {WorkerEnd::Kind::stuck, "hangs"}));
  site.notice();
  site.pass(1800s);
  CHECK(site.order() == nullptr);
  site.push();  // asked for
  CHECK(site.finish_one());
  site.notice();
  site.pass(1900s);
  CHECK(site.finish_one());
}

TEST_CASE("claims about intervals are bounded") {
  const PushTimes times({}, {0xffffffff}, 60, Clock::time_point{}, 0ms);
  REQUIRE(times.next());
  CHECK(*times.next() - Clock::time_point{} <= 31 * 24h);
}
