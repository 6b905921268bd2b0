#include <doctest/doctest.h>

#include "common/text/human.hpp"
#include "daemon/root/held/hold.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

ItemRecord item(ItemState state, const char* source, const char* note, std::uint32_t flags = 0) {
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(state);
  record.flags = flags;
  set_field(record.source, source);
  set_field(record.destination, "/p/out");
  set_field(record.note, note);
  return record;
}

WorkerStatus status_of(WorkerPhase phase, std::vector<ItemRecord> items) {
  WorkerStatus status;
  status.phase = phase;
  status.items = std::move(items);
  return status;
}

JobRecord held_record(std::uint32_t job, std::uint64_t bytes) {
  JobRecord record;
  record.begin.job = job;
  record.begin.node = "n1";
  record.hold.since = 1'700'000'000;
  record.hold.retry_at = 1'700'000'060;
  record.hold.bytes = bytes;
  record.hold.reasons = {"res -> /p/out: not delivered: No space left on device"};
  return record;
}

}  // namespace

TEST_CASE("the pause doubles up to the longest") {
  CHECK(retry_delay_s(0, 60, 3600) == 60);
  CHECK(retry_delay_s(1, 60, 3600) == 60);
  CHECK(retry_delay_s(2, 60, 3600) == 120);
  CHECK(retry_delay_s(6, 60, 3600) == 1920);
  CHECK(retry_delay_s(7, 60, 3600) == 3600);
  CHECK(retry_delay_s(4'000'000'000, 60, 3600) == 3600);
  CHECK(retry_delay_s(1, 60, 10) == 10);
}

TEST_CASE("when it is warned of and when it goes") {
  HoldRecord hold;
  hold.since = 1'700'000'000;
  const HoldTimes times = hold_times(hold, {});
  CHECK(times.expire == hold.since + 30 * 86'400);
  CHECK(times.warn == hold.since + 27 * 86'400);
  Config::Hold settings;
  settings.days = 2;
  CHECK(hold_times(hold, settings).warn == hold.since);
}

TEST_CASE("nothing goes before it was warned of for the whole time") {
  HoldRecord hold;
  hold.since = 1'000;  // the clock was not set yet
  hold.warned_at = 1'700'000'000;
  CHECK(hold_times(hold, {}).expire == 1'700'000'000 + 3 * 86'400);
  hold.since = 1'700'000'000;
  CHECK(hold_times(hold, {}).expire == 1'700'000'000 + 30 * 86'400);
}

TEST_CASE("dates in the future are those of a wrong clock") {
  HoldRecord hold;
  hold.since = 2'000'000'000;
  hold.warned_at = 2'000'000'000;
  hold.retry_at = 2'000'000'000;
  mend_times(hold, {}, 1'700'000'000);
  CHECK(hold.since == 1'700'000'000);
  CHECK(hold.warned_at == 0);
  CHECK(hold.retry_at == 1'700'003'600);
  hold.retry_at = 0;
  mend_times(hold, {}, 1'700'000'001);
  CHECK(hold.since == 1'700'000'000);
  CHECK(hold.retry_at == 0);
}

TEST_CASE("a node boots with a clock that is years behind: nothing goes earlier for it") {
  HoldRecord hold;
  hold.since = 1'700'000'000;
  mend_times(hold, {}, 3600);  // 1970
  CHECK(hold.since == 1'700'000'000);
  hold.since = 3600;  // held by that clock
  mend_times(hold, {}, 1'700'000'000);
  CHECK(hold.since == 1'700'000'000);
}

TEST_CASE("what has been delivered, what has not, and whether a further try can help") {
  using enum ItemState;
  const auto ended =
      status_of(WorkerPhase::failed,
                {item(done, "a", ""), item(ItemState::failed, "b", "why"), item(skipped, "c", "")});
  CHECK(delivered_items(ended) == 0b001);  // what was skipped was not delivered
  CHECK(can_try_again(ended));
  CHECK(reasons_of(ended, "cause\nadvice") ==
        std::vector<std::string>{"b -> /p/out: not delivered: why"});

  const auto final =
      status_of(WorkerPhase::failed, {item(ItemState::failed, "b", "when=", k_item_final)});
  CHECK_FALSE(can_try_again(final));
  const auto mixed = status_of(
      WorkerPhase::failed,
      {item(ItemState::failed, "b", "when=", k_item_final), item(ItemState::failed, "c", "full")});
  CHECK(can_try_again(mixed));
}

TEST_CASE("what waits for its user: all causes are theirs, and the worker could tell them") {
  using enum ItemState;
  const auto users = item(failed, "b", "Permission denied", k_item_users);
  CHECK(waits_for_user(status_of(WorkerPhase::failed, {item(done, "a", ""), users})));
  CHECK_FALSE(
      waits_for_user(status_of(WorkerPhase::failed, {users, item(failed, "c", "I/O error")})));
  CHECK_FALSE(waits_for_user(status_of(WorkerPhase::working, {users})));
  CHECK_FALSE(waits_for_user(status_of(WorkerPhase::failed, {})));
  CHECK_FALSE(waits_for_user({}));
}

TEST_CASE("a worker that was killed: what it had not ended, and how it ended") {
  using enum ItemState;
  const auto cut = status_of(WorkerPhase::working, {item(done, "a", ""), item(working, "b", ""),
                                                    item(waiting, "c", "", k_item_final)});
  CHECK(can_try_again(cut));
  CHECK(delivered_items(cut) == 1);
  const auto reasons = reasons_of(cut, "the process took too long\nmore");
  CHECK(reasons == std::vector<std::string>{"the process took too long", "b: not finished",
                                            "c: not finished"});
  CHECK(can_try_again({}));
  CHECK(reasons_of({}, "cause") == std::vector<std::string>{"cause"});
}

TEST_CASE("many reasons are bounded") {
  std::vector<ItemRecord> items(64, item(ItemState::failed, "b", std::string(1900, 'x').c_str()));
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

TEST_CASE("new outputs are refused beyond max_bytes, with the jobs' names and what to do") {
  const HeldTree first{{12, 0}, 3 << 20};
  const HeldTree second{{13, 0}, 2 << 20};
  Config::Hold settings;
  settings.max_bytes = 5 << 20;
  CHECK(outputs_refusal({first, second}, "n1", settings).empty());
  settings.max_bytes -= 1;
  const std::string text = outputs_refusal({first, second}, "n1", settings);
  check_has(text, {"refused on n1: 5.0 MiB of your earlier results", "job 12, 13",
                   "nodestage recover JOBID DIR --node=n1"});
  CHECK(outputs_refusal({first}, "n1", settings).empty());
  settings.max_bytes = 0;
  CHECK(outputs_refusal({first, second}, "n1", settings).empty());
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

TEST_CASE("new outputs are refused beyond max_inodes, however small the files are") {
  const HeldTree first{{12, 0}, 1 << 20, 200'213};
  const HeldTree second{{13, 0}, 1 << 20, 7};
  Config::Hold settings;
  settings.max_inodes = 200'220;
  CHECK(outputs_refusal({first, second}, "n1", settings).empty());
  settings.max_inodes -= 1;
  CHECK(has(outputs_refusal({first, second}, "n1", settings),
            "200,220 files and directories of your earlier results that could not be delivered "
            "are kept there, and the limit is 200,219 (held: job 12, 13)"));
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
