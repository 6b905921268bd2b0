#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "daemon/root/jobs/credits.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// 1 of 10 GiB after so many seconds.
Progress after(std::uint64_t seconds) {
  Progress progress;
  progress.phase = ProgressPhase::staging;
  progress.bytes_read = 1ULL << 30;
  progress.bytes_total = 10ULL << 30;
  progress.elapsed_ms = 1000 * seconds;
  return progress;
}

}  // namespace

TEST_CASE("how long a staging will take is known once it has run for a moment") {
  CHECK(seconds_left(after(10)) == 90U);
  CHECK(seconds_left(after(400)) == 3600U);
  CHECK_FALSE(seconds_left(after(4)));  // too early
  CHECK(seconds_left(after(6)) == 54U);
  Progress progress = after(100);
  progress.bytes_total = 0;
  CHECK_FALSE(seconds_left(progress));
  progress = after(100);
  progress.bytes_read = 0;
  CHECK_FALSE(seconds_left(progress));
  progress = after(100);
  progress.phase = ProgressPhase::others;
  CHECK_FALSE(seconds_left(progress));
}

TEST_CASE(
    "the note on the limit stays until it has passed, and then nothing is promised any more") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  Config config;
  config.slurm.scontrol = scratch / "scontrol";
  std::ofstream(config.slurm.scontrol)
      << "#!/bin/sh\necho 'JobId=1 JobName=x JobState=RUNNING Restarts=0 TimeLimit=00:02:00 "
         "Partition=p'\n";
  ::chmod(config.slurm.scontrol.c_str(), 0755);
  Loop loop = std::move(*Loop::create());
  Journal journal = std::move(*Journal::open(scratch / "state"));
  Counters counters;
  JobTable table(loop, journal, counters);
  JobRecord added;
  added.begin.job = 1;
  added.begun_at = loop.wall_s();
  const auto record = table.add(added);
  REQUIRE(record);
  TimeLimits limits(loop, config, table);
  // With 1 of 10 GiB after 30 s, 270 s are left; Slurm answers some moment later.
  Progress progress = after(30);
  std::string note;
  for (int looks = 0; looks < 1000 && note.empty(); ++looks) {
    note = limits.note(**record, progress);
    loop.after(std::chrono::milliseconds(10), [&loop] { loop.stop(); });
    REQUIRE(loop.run());
  }
  CHECK(note.starts_with("the job's time limit ends before that, in "));
  loop.advance(std::chrono::seconds(100));
  progress.bytes_read = 9ULL << 30;
  progress.elapsed_ms = 270'000;  // 30 s are left, and the limit ends before
  CHECK(limits.note(**record, progress).starts_with("the job's time limit ends before that, in "));
  CHECK(progress.bytes_total != 0);
  loop.advance(std::chrono::seconds(60));
  CHECK(limits.note(**record, progress) == "the job's time limit has passed");
  CHECK(progress.bytes_total == 0);
}
