#include <doctest/doctest.h>

#include <map>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/held/hold.hpp"
#include "push_site.hpp"

using namespace nodestage;

namespace {

WorkerStatus status_of(WorkerPhase phase, std::vector<ItemRecord> items) {
  return {.phase = phase, .items = std::move(items)};
}

JobRecord held_record(std::uint32_t job, std::uint64_t bytes) {
  return {.begin = {.job = job, .node = "n1"},
          .hold = {.since = 1'700'000'000,
                   .retry_at = 1'700'000'060,
                   .bytes = bytes,
                   .reasons = {"res -> /p/out: not delivered: No space left on device"}}};
}

}  // namespace

TEST_CASE("the pause doubles up to the longest") {
  const std::map<std::uint32_t, std::uint64_t> delays = {
      {0, 60}, {1, 60}, {2, 120}, {6, 1920}, {7, 3600}, {4'000'000'000, 3600}};
  for (const auto& [tries, delay] : delays) CHECK(retry_delay_s(tries, 60, 3600) == delay);
  CHECK(retry_delay_s(1, 60, 10) == 10);
}

TEST_CASE("when it is warned of, for the whole time before it goes, and when it goes") {
  HoldRecord hold{.since = 1'700'000'000};
  const HoldTimes times = hold_times(hold, {});
  CHECK(times.expire == hold.since + 30 * 86'400);
  CHECK(times.warn == hold.since + 27 * 86'400);
  Config::Hold settings;
  settings.days = 2;
  CHECK(hold_times(hold, settings).warn == hold.since);
  hold.warned_at = 1'700'000'000;
  CHECK(hold_times(hold, {}).expire == 1'700'000'000 + 30 * 86'400);
  hold.since = 1'000;  // the clock was not set yet
  CHECK(hold_times(hold, {}).expire == 1'700'000'000 + 3 * 86'400);
}

TEST_CASE("dates by a wrong clock are mended, and nothing goes earlier for one that is behind") {
  struct Row {
    const char* what;
    HoldRecord hold;
    std::uint64_t now;
    HoldRecord mended;
  };
  for (const Row& row :
       {Row{"dates in the future",
            {.since = 2'000'000'000, .retry_at = 2'000'000'000, .warned_at = 2'000'000'000},
            1'700'000'000,
            {.since = 1'700'000'000, .retry_at = 1'700'003'600}},
        Row{"nothing to mend", {.since = 1'700'000'000}, 1'700'000'001, {.since = 1'700'000'000}},
        Row{"a node boots with a clock that is years behind",
            {.since = 1'700'000'000},
            3600,
            {.since = 1'700'000'000}},
        Row{"held by such a clock", {.since = 3600}, 1'700'000'000, {.since = 1'700'000'000}}}) {
    CAPTURE(row.what);
    HoldRecord hold = row.hold;
    mend_times(hold, {}, row.now);
    CHECK(hold.since == row.mended.since);
    CHECK(hold.warned_at == row.mended.warned_at);
    CHECK(hold.retry_at == row.mended.retry_at);
  }
}

TEST_CASE("what has been delivered, what has not, and whether a further try can help") {
  using enum ItemState;
  const auto ended = status_of(
      WorkerPhase::failed,
      {output("a", done), output("b", ItemState::failed, 0, "why"), output("c", skipped)});
  CHECK(delivered_items(ended) == 0b001);  // what was skipped was not delivered
  CHECK(can_try_again(ended));
  CHECK(reasons_of(ended, "cause\nadvice") ==
        std::vector<std::string>{"b -> /scratch/out: not delivered: why"});

  const auto final =
      status_of(WorkerPhase::failed, {output("b", ItemState::failed, k_item_final, "when=")});
  CHECK_FALSE(can_try_again(final));
  const auto mixed =
      status_of(WorkerPhase::failed, {output("b", ItemState::failed, k_item_final, "when="),
                                      output("c", ItemState::failed, 0, "full")});
  CHECK(can_try_again(mixed));
}

TEST_CASE("what waits for its user: all causes are theirs, and the worker could tell them") {
  using enum ItemState;
  const auto users = output("b", failed, k_item_users, "Permission denied");
  CHECK(waits_for_user(status_of(WorkerPhase::failed, {output("a", done), users})));
  CHECK_FALSE(
      waits_for_user(status_of(WorkerPhase::failed, {users, output("c", failed, 0, "I/O error")})));
  CHECK_FALSE(waits_for_user(status_of(WorkerPhase::working, {users})));
  CHECK_FALSE(waits_for_user(status_of(WorkerPhase::failed, {})));
  CHECK_FALSE(waits_for_user({}));
}

TEST_CASE("a worker that was killed: what it had not ended, and how it ended") {
  using enum ItemState;
  const auto cut = status_of(WorkerPhase::working, {output("a", done), output("b", working),
                                                    output("c", waiting, k_item_final, "")});
  CHECK(can_try_again(cut));
  CHECK(delivered_items(cut) == 1);
  const auto reasons = reasons_of(cut, "the process took too long\nmore");
  CHECK(reasons == std::vector<std::string>{"the process took too long", "b: not finished",
                                            "c: not finished"});
  CHECK(can_try_again({}));
  CHECK(reasons_of({}, "cause") == std::vector<std::string>{"cause"});
}

TEST_CASE("many reasons are bounded") {
  std::vector<ItemRecord> items(64,
                                output("b", ItemState::failed, 0, std::string(1900, 'x').c_str()));
  const auto reasons = reasons_of(status_of(WorkerPhase::failed, items), "");
  CHECK(reasons.size() == 17);
  JobRecord record = held_record(12, 0);
  record.hold.reasons = reasons;
  CHECK(held_notice(record, {}).size() < 12'000);
}

TEST_CASE("the notice: job, node, cause, how long, and both commands") {
  JobRecord record = held_record(12, 0);
  const std::string text = held_notice(record, {});
  check_has(text, {"nodestage: job 12, node n1\n", "No space left on device",
                   "until " + human_date(1'700'000'000 + 30 * 86'400),
                   "    nodestage recover 12 DIR --node=n1\n",
                   "    srun -w n1 -N1 -n1 nodestage recover 12 DIR\n", "tried again"});
  CHECK_FALSE(has(text, "SOON"));
  record.hold.warned_at = 1;
  record.hold.retry_at = 0;
  record.begin.restart = 2;
  const std::string warned = held_notice(record, {});
  check_has(warned, {"SOON", "No further try", "nodestage recover 12.2 DIR"});
}

TEST_CASE("of a job of several nodes, one command recovers all, and each node has its directory") {
  JobRecord record = held_record(12, 0);
  CHECK(recovered_to(record, "/d") == "/d");
  record.begin.node_count = 3;
  CHECK(recovered_to(record, "/d") == "/d/n1");
  const std::string text = held_notice(record, {});
  check_has(text, {"    nodestage recover 12 DIR --all-nodes\n",
                   "    srun -w n1 -N1 -n1 nodestage recover 12 DIR\n", "is copied to DIR/NODE"});
  CHECK_FALSE(has(text, "--node="));
}

TEST_CASE("the notice says where Slurm can switch the node off") {
  JobRecord record = held_record(12, 0);
  record.begin.slurm_ways |= k_powers_down;
  CHECK(has(held_notice(record, {}), "THEY CAN BE LOST EARLIER"));
  record.begin.slurm_ways = k_at_allocation;
  CHECK_FALSE(has(held_notice(record, {}), "EARLIER"));
}

TEST_CASE("the notice of a removed directory names who has probably removed it") {
  JobRecord record = held_record(12, 0);
  CHECK(has(lost_notice(record, Loss::removed), "a script cleans up too early"));
  record.directory_was_there = true;
  const std::string text = lost_notice(record, Loss::removed);
  check_has(text, {"another\nprogram had made the directory", "nodestage doctor"});
}

TEST_CASE("new outputs are refused beyond a limit, with the jobs' names and what to do") {
  const HeldTree first{{12, 0}, 3 << 20, 200'213};
  const HeldTree second{{13, 0}, 2 << 20, 7};
  struct Row {
    std::uint64_t Config::Hold::*limit;
    std::uint64_t most;
    const char* refusal;
  };
  for (const Row& row :
       {Row{&Config::Hold::max_bytes, 5 << 20, "refused on n1: 5.0 MiB of your earlier results"},
        Row{&Config::Hold::max_inodes, 200'220,
            "200,220 files and directories of your earlier results that could not be delivered "
            "are kept there, and the limit is 200,219"}}) {
    CAPTURE(row.refusal);
    Config::Hold settings;
    settings.*row.limit = row.most;
    CHECK(outputs_refusal({first, second}, "n1", settings).empty());
    settings.*row.limit -= 1;
    check_has(outputs_refusal({first, second}, "n1", settings),
              {row.refusal, "(held: job 12, 13)", "nodestage recover JOBID DIR --node=n1"});
    CHECK(outputs_refusal({first}, "n1", settings).empty());
    settings.*row.limit = 0;
    CHECK(outputs_refusal({first, second}, "n1", settings).empty());
  }
}

TEST_CASE("sizes that a worker could not have seen do not wrap around") {
  CHECK_FALSE(outputs_refusal({{{12, 0}, ~0ULL}, {{13, 0}, ~0ULL}}, "n1", {}).empty());
  CHECK_FALSE(outputs_refusal({{{12, 0}, 0, ~0ULL}, {{13, 0}, 0, ~0ULL}}, "n1", {}).empty());
}

TEST_CASE("what could not be measured counts as too much, where there is a limit") {
  const HeldTree first{{12, 0}, 3 << 20};
  const HeldTree second{{13, 1}, 0, 0, true};
  Config::Hold settings;
  CHECK(has(outputs_refusal({first, second}, "n1", settings),
            "those of job 13.1 could not be measured"));
  settings.max_bytes = 0;
  CHECK(has(outputs_refusal({first, second}, "n1", settings), "the limit is 5,000,000 files"));
  settings.max_inodes = 0;
  CHECK(outputs_refusal({first, second}, "n1", settings).empty());
}

TEST_CASE("new outputs are refused beyond max_jobs, with the names of some") {
  std::vector<HeldTree> held;
  for (std::uint32_t job = 1; job < 1000; ++job) held.push_back({{job, 0}});
  CHECK(outputs_refusal(held, "n1", {}).empty());
  held.push_back({{1000, 0}});
  const std::string text = outputs_refusal(held, "n1", {});
  check_has(text, {"results of 1,000 of your earlier jobs", "job 1, 2, 3"});
  CHECK(text.size() < 1200);
  Config::Hold settings;
  settings.max_jobs = 0;
  CHECK(outputs_refusal(held, "n1", settings).empty());
}

namespace {

WorkerStatus status() {
  WorkerStatus status;
  status.phase = WorkerPhase::failed;
  status.items = {output("a", ItemState::done), output("b", ItemState::failed, 0, "disk full"),
                  output("c", ItemState::skipped, 0, "when=success, and the job failed")};
  set_field(status.items[1].destination, "/t/b");
  return status;
}

JobRecord delivered_job(std::uint32_t node_index = 0, std::uint32_t node_count = 1) {
  return {.begin = {.job = 12, .node = "n1", .node_count = node_count, .node_index = node_index}};
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a line for each output, and on nodes after the first none of what is not there") {
  const Lines all = {"a -> /scratch/out: 3 files, 30 B in 0.0 s",
                     "b -> /t/b: not delivered: disk full",
                     "c: skipped: when=success, and the job failed"};
  CHECK(result_lines(delivered_job(), status()) == all);
  CHECK(result_lines(delivered_job(0, 2), status()) == all);
  CHECK(result_lines(delivered_job(1, 2), status()) == Lines{all[0], all[1]});
  JobRecord pushed = delivered_job();
  pushed.push_has_failed = true;
  CHECK(result_lines(pushed, status()).size() == 4);
}

TEST_CASE("what is held says how to fetch it, and why where no output does") {
  const Lines lines = held_lines(delivered_job(), status(), "stage-out of b failed\nadvice");
  REQUIRE(lines.size() == 4);
  CHECK(lines[3] ==
        "what could not be delivered is kept on this node: `nodestage recover 12 DIR --node=n1` "
        "copies it to DIR");
  CHECK(held_lines(delivered_job(1, 3), status(), "").back() ==
        "what could not be delivered is kept on this node: `nodestage recover 12 DIR --all-nodes` "
        "copies it to DIR/n1");
  const Lines unknown = held_lines(delivered_job(), {}, "the process was\tkilled\nadvice");
  REQUIRE(unknown.size() == 2);
  CHECK(unknown[0] == "results could not be delivered: the process was\\x09killed");
}

TEST_CASE("results that are lost are reported as lost") {
  CHECK(lost_lines(delivered_job(), status(), "cause", Loss::mount).back() ==
        "what could not be delivered is lost with the site's directory");
  const Lines removed = lost_lines(delivered_job(), {}, "/l/a.12.0 was removed", Loss::removed);
  CHECK(removed == Lines{"results could not be delivered: /l/a.12.0 was removed",
                         "the results are lost; tell your site's support"});
}

TEST_CASE("what became of what was held says so") {
  CHECK(released_lines(status(), "") ==
        Lines{"a -> /scratch/out: 3 files, 30 B in 0.0 s", std::string(k_kept_delivered)});
  CHECK(released_lines(status(), "recovered to /home/\x1b") == Lines{"recovered to /home/\\x1b"});
}

// How large held results are, which can grow while they are held.

TEST_CASE("held results are measured again at each try, and while none is made") {
  JobSite site;
  site.jobs->begin(site.request(k_job));
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  site.wait(k_job);
  site.end(k_job);
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::failed, "no space left");
  const auto measure = [&site](std::uint64_t bytes) {
    ItemRecord item{.bytes_total = bytes, .files = 3};
    site.workers.finish(WorkerTask::measure, k_job, WorkerPhase::done, {item});
    CHECK(site.jobs->held(0).at(0).bytes == bytes);
    CHECK(site.jobs->held(0).at(0).inodes == 3);
  };
  measure(4096);
  CHECK(site.workers.find(WorkerTask::measure) == nullptr);
  site.pass(std::chrono::seconds(site.config.hold.retry_first_s + 1));
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::failed, "no space left");
  measure(600 << 20);
  CHECK(site.journal.load().records.at(0).hold.inodes == 3);
  // A target that no try can reach: no worker that stages out comes to an end.
  site.config.hold.retry_first_s = site.config.hold.retry_most_s = 86'400;
  site.start_daemon();
  site.pass(std::chrono::seconds(3700));
  site.workers.end(WorkerTask::stage_out);
  measure(700 << 20);
}
