// Results that are delivered while their job runs: for whom, and what a push that fails, hangs or
// outlives its job does. Without root and worker processes.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "push_site.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

TEST_CASE("a push is answered when its worker has delivered") {
  RunningSite site;
  CHECK(site.push() != 0);
  REQUIRE(site.order() != nullptr);
  CHECK(site.order()->push_all);
  CHECK(site.order()->keeps_list);
  CHECK(site.count<Ready>() == 0);
  site.finish();
  REQUIRE(site.count<Ready>() == 1);
  const auto& lines = as<Ready>(site.answers.back()).lines;
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("results -> /scratch/out: 3 files"));
  CHECK(site.order() == nullptr);
}

TEST_CASE("who does not wait is answered at once, and delivered for") {
  RunningSite site;
  CHECK(site.push({}, 0) == 0);
  CHECK(site.count<Accepted>() == 1);
  CHECK(site.finish_one());
  CHECK(site.count<Ready>() == 0);
}

TEST_CASE("calls during a push wait for the next one, all for the same") {
  RunningSite site;
  site.push({"a"});
  REQUIRE(site.order() != nullptr);
  CHECK(site.order()->push_names == std::vector<std::string>{"a"});
  CHECK(site.order()->shows_total);
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
  RunningSite site;
  site.push();
  site.finish(WorkerPhase::done,
              {output("results", ItemState::done, k_item_unsettled, "1 file was being written")});
  REQUIRE(site.count<Failed>() == 1);
  CHECK(as<Failed>(site.answers.back()).cause == "results: 1 file was being written");
  CHECK(site.notice().empty());
}

TEST_CASE("names that the job does not have, and jobs without outputs") {
  RunningSite site;
  site.push({"reslts"});
  site.finish(WorkerPhase::done, {output("results", ItemState::skipped)});
  REQUIRE(site.count<Refused>() == 1);
  CHECK(as<Refused>(site.answers.back()).reason == RefusalReason::unknown_name);
  CHECK(as<Refused>(site.answers.back()).what ==
        "the job has no output 'reslts'; the sources of its --stage-out: 'results'");
  site.push();
  site.finish(WorkerPhase::done, {});
  CHECK(site.count<Refused>() == 2);
  site.jobs->push({99, 1000, 1, {}}, site.reply);
  CHECK(site.count<Refused>() == 3);
}

TEST_CASE("a push that fails tells its caller the cause, and nobody else") {
  RunningSite site;
  site.push();
  site.finish(WorkerPhase::failed,
              {output("results", ItemState::failed, 0, "a.pt: No space left on device")});
  REQUIRE(site.count<Failed>() == 1);
  CHECK(as<Failed>(site.answers.back()).cause == "results: a.pt: No space left on device");
  CHECK(site.notice().empty());
  CHECK(site.state_of(k_job) == "ready");
}

TEST_CASE("a notice about a failed push is taken back when the job's end delivers all") {
  RunningSite site({60});
  site.pass(61s);
  site.workers.finish(WorkerTask::push, WorkerPhase::failed, "the quota is full");
  CHECK(site.notice() != "");
  site.end(k_job);
  site.workers.finish(WorkerTask::stage_out, k_job, WorkerPhase::done,
                      {output("a", ItemState::done)});
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
  RunningSite site({60});
  site.push();
  const auto id = site.workers.find(WorkerTask::push)->id;
  site.end(k_job);
  CHECK(site.workers.killed == std::vector<Workers::Id>{id});
  CHECK(site.count<Failed>() == 1);
  CHECK(site.state_of(k_job) == "stopping");
  CHECK(site.workers.find(WorkerTask::stage_out) == nullptr);
  REQUIRE(site.workers.end(WorkerTask::push, k_dead));
  CHECK(site.workers.order<StageOutOrder>().keeps_list);
  CHECK(site.notice().empty());
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
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
    site.accept(site.request(k_job));
    REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::ready, {}));
    site.wait(k_job);
    site.pass(1s);
    REQUIRE(site.state_of(k_job) == "ready");
    site.push();
    site.end(k_job);
    REQUIRE(site.workers.end(push_is_first ? WorkerTask::push : WorkerTask::stage, k_dead));
    CHECK(site.workers.find(WorkerTask::stage_out) == nullptr);
    CHECK(site.state_of(k_job) == "stopping");
    REQUIRE(site.workers.end(push_is_first ? WorkerTask::stage : WorkerTask::push, k_dead));
    REQUIRE(site.workers.alive.size() == 1);
    CHECK(site.workers.alive.front().task() == WorkerTask::stage_out);
    CHECK(site.state_of(k_job) == "staging out");
  }
}

TEST_CASE("an epilog that can wait no longer for a push in the site's directory gets an answer") {
  PushSite site;
  site.config.tmpdir.create = CreateDirectory::never;
  site.accept(site.request(k_job));
  const std::string directory = site.scratch / "alice.7.0";
  std::filesystem::create_directory(directory);
  REQUIRE(::chown(directory.c_str(), JobSite::user(), JobSite::group()) == 0);
  REQUIRE(::chmod(directory.c_str(), 0700) == 0);
  site.pass(1s);
  site.workers.finish(WorkerTask::stage, k_job, WorkerPhase::done, {});
  Wait wait{.job = k_job, .goes_on = k_runs};
  site.jobs->wait(wait, site.reply);
  // The tree cannot be moved, as if it were a mount.
  std::ofstream(site.scratch / ".nodestage/hold/7.0");
  site.push();
  site.end(k_job);
  REQUIRE(site.state_of(k_job) == "stopping");
  site.pass(std::chrono::seconds(epilog_wait_of(site.config) + 1));
  REQUIRE(site.workers.end(WorkerTask::push, {WorkerEnd::Kind::stuck, "hangs"}));
  CHECK(site.workers.find(WorkerTask::stage_out) == nullptr);
  REQUIRE(site.count<Ended>() == 1);
  CHECK(as<Ended>(site.answers.back()).outcome == EndOutcome::lost);
}

TEST_CASE("names that no order has room for are refused, and delay nobody") {
  RunningSite site;
  CHECK(site.push(std::vector<std::string>(9, std::string(4096, 'a'))) != 0);  // one name
  site.finish();
  site.answers.clear();
  std::vector<std::string> names;
  for (char i = 0; i < 5; ++i)
    names.push_back(std::string(4095, '\x01') + static_cast<char>('a' + i));
  CHECK(site.push(names) == 0);
  REQUIRE(site.count<Refused>() == 1);
  CHECK(as<Refused>(site.answers.back()).reason == RefusalReason::malformed);
  CHECK(site.order() == nullptr);
  // What several ask for during a push goes into one order.
  site.push();
  CHECK(site.push({names[0]}) != 0);
  CHECK(site.push({names[1]}) == 0);
  REQUIRE(site.count<Refused>() == 2);
  CHECK(as<Refused>(site.answers.back()).reason == RefusalReason::busy);
  site.finish();
  REQUIRE(site.order() != nullptr);
  CHECK(encode_order(*site.order()).size() < 64 * 1024);
}

TEST_CASE("an answer about many outputs with long notes fits into a message") {
  const std::string text(1000, '\x01');
  std::vector<ItemRecord> items;
  for (std::size_t i = 0; i < k_max_request_items; ++i)
    items.push_back(output(text.c_str(), ItemState::failed, 0, text.c_str()));
  WorkerStatus status{.phase = WorkerPhase::failed, .items = items};
  const Message answer = answer_to({}, status, {});
  CHECK(encode_message(answer).size() < k_max_message_bytes);
  CHECK(has(as<Failed>(answer).lines.back(), " more, too long to show"));
}

TEST_CASE("a push whose worker cannot be started fails, and does not repeat the last one's word") {
  RunningSite site;
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
  RunningSite site;
  const Ticket ticket = site.push();
  site.jobs->leave(ticket);
  const std::size_t before = site.answers.size();
  site.pass(10s);
  CHECK(site.finish_one());
  CHECK(site.answers.size() == before);
}

TEST_CASE("of very many callers some are answered at a time, and all in the end") {
  constexpr std::size_t k_callers = 200;
  RunningSite site;
  std::vector<std::string> names;
  std::vector<ItemRecord> items;
  for (int i = 0; i < 64; ++i) {
    names.push_back("out" + std::to_string(i));
    items.push_back(output(names.back().c_str(), ItemState::done));
  }
  for (std::size_t i = 0; i < k_callers; ++i) site.push(names);
  REQUIRE(site.finish_one());  // the next one is for those who came meanwhile
  const auto answered = [&site] { return site.count<Ready>() + site.count<Failed>(); };
  site.answers.clear();
  SUBCASE("the push is done") {
    site.finish(WorkerPhase::done, items);
    CHECK(site.count<Ready>() > 0);
  }
  SUBCASE("the job has ended") { site.end(k_job); }
  CHECK(answered() > 0);
  CHECK(answered() < k_callers / 2);
  for (int i = 0; i < 8; ++i) site.pass(1s);
  CHECK(answered() == k_callers - 1);  // the first one had its answer before
}

TEST_CASE("the status shows what was delivered, each output as of its last push") {
  RunningSite site;
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
  RunningSite site;
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
