#include <doctest/doctest.h>

#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "tests/unit/sizes.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

Progress staging(std::uint64_t read, std::uint64_t total, std::uint64_t elapsed_ms) {
  return {.phase = ProgressPhase::staging,
          .items = 1,
          .bytes_read = read,
          .bytes_total = total,
          .files = 12345,
          .elapsed_ms = elapsed_ms,
          .current = "data.tar.gz"};
}

}  // namespace

TEST_CASE("bytes_of names a common unit once") {
  CHECK(bytes_of(1288490189, 4294967296) == "1.2 of 4.0 GiB");
  CHECK(bytes_of(900 * k_mib, 1288490189) == "900.0 MiB of 1.2 GiB");
  CHECK(bytes_of(0, 4294967296) == "0 B of 4.0 GiB");
  CHECK(bytes_of(5, 10) == "5 of 10 B");
}

TEST_CASE("progress: a line has bytes, percent, files, speed and the time left") {
  ProgressPrinter printer;
  CHECK(printer.line(staging(1000 * k_mib, 4000 * k_mib, 10000)) ==
        "data.tar.gz: 1.0 of 3.9 GiB (25%), about 30 s left, 100.0 MiB/s, 12,345 files");
}

TEST_CASE("progress: before any time has passed there is no speed") {
  ProgressPrinter printer;
  CHECK(printer.line(staging(0, 4096 * k_mib, 0)) ==
        "data.tar.gz: 0 B of 4.0 GiB (0%), 12,345 files");
}

TEST_CASE("progress: the total may be unknown or less than what was read") {
  ProgressPrinter printer;
  CHECK(printer.line(staging(100 * k_mib, 0, 1000)) ==
        "data.tar.gz: 100.0 MiB read, 100.0 MiB/s, 12,345 files");
  CHECK(has(printer.line(staging(200 * k_mib, 100 * k_mib, 2000)), "(100%)"));
}

TEST_CASE("progress: the speed follows recent readings and survives a stop") {
  ProgressPrinter printer;
  static_cast<void>(printer.line(staging(1000 * k_mib, 4000 * k_mib, 10000)));
  const auto slower = printer.line(staging(1000 * k_mib, 4000 * k_mib, 15000));
  CHECK(has(slower, "36.8 MiB/s"));
  const auto stopped = printer.line(staging(1000 * k_mib, 4000 * k_mib, 10'000'000));
  CHECK_FALSE(has(stopped, "left"));
}

TEST_CASE("progress: numbers that go backwards begin anew") {
  ProgressPrinter printer;
  static_cast<void>(printer.line(staging(1000 * k_mib, 4000 * k_mib, 10000)));
  CHECK(has(printer.line(staging(10 * k_mib, 4000 * k_mib, 1000)), "10.0 MiB/s"));
}

TEST_CASE("progress: several items are counted") {
  ProgressPrinter printer;
  Progress progress = staging(0, 0, 0);
  progress.items = 3;
  progress.items_done = 1;
  CHECK(printer.line(progress).starts_with("item 2 of 3, data.tar.gz: "));
  progress.items_done = 3;
  CHECK(printer.line(progress).starts_with("item 3 of 3, "));
  progress.bytes_total = 4096 * k_mib;
  CHECK(has(printer.line(progress), "data.tar.gz: 0 B of 4.0 GiB in all (0%)"));
}

TEST_CASE("progress: the queue and the start") {
  ProgressPrinter printer;
  Progress progress{.phase = ProgressPhase::queued};
  CHECK(printer.line(progress) == "waiting for its turn to stage on this node");
  progress.jobs_ahead = 1;
  CHECK(printer.line(progress) == "waiting for another job that stages on this node");
  progress.jobs_ahead = 2;
  CHECK(printer.line(progress) == "waiting for 2 other jobs that stage on this node");
  progress.current = "job 4711, which stages data.tar for this job,\ttoo";
  CHECK(printer.line(progress) ==
        "waiting for job 4711, which stages data.tar for this job,\\x09too");
  progress.phase = ProgressPhase::starting;
  CHECK(printer.line(progress) == "staging starts");
}

TEST_CASE("progress: one file, a long time") {
  ProgressPrinter printer;
  Progress progress = staging(100 * k_mib, 100 * 1000 * k_mib, 100000);
  progress.files = 1;
  const auto line = printer.line(progress);
  CHECK(line.ends_with(", 1 file"));
  CHECK(has(line, "about 27 h 45 min left"));
}

TEST_CASE("progress: a narrow terminal loses what matters less, and the percentage last") {
  ProgressPrinter::Line line;
  line.number = "item 2 of 3";
  line.name = "a-long-name-of-data.tar.gz";
  line.amount = "1.2 of 4.0 GiB in all";
  line.share = "30%";
  line.details = {"about 9 s left", "310.0 MiB/s", "12,345 files"};
  line.others = "1 of 3 nodes is not ready";
  const std::string prefix = "nodestage: n1: ";
  const std::string named = "item 2 of 3, a-long-name-of-data.tar.gz: 1.2 of 4.0 GiB in all (30%)";
  CHECK(line.within(prefix, 200) == prefix + named +
                                        ", about 9 s left, 310.0 MiB/s, 12,345 files; 1 of 3 nodes "
                                        "is not ready");
  CHECK(line.within(prefix, 140) == prefix + named + ", about 9 s left, 310.0 MiB/s, 12,345 files");
  CHECK(line.within(prefix, 100) == prefix + named + ", about 9 s left");
  CHECK(line.within(prefix, 99) == prefix + named + ", about 9 s left");
  CHECK(line.within(prefix, 84) == prefix + named);
  CHECK(line.within(prefix, 79) ==
        prefix + "a-long-name-of-data.tar.gz: 1.2 of 4.0 GiB in all (30%)");
  CHECK(line.within(prefix, 60) == prefix + "a-long....tar.gz: 1.2 of 4.0 GiB in all (30%)");
  CHECK(line.within(prefix, 45) == prefix + "1.2 of 4.0 GiB in all (30%)");
  CHECK(line.within(prefix, 40) == "1.2 of 4.0 GiB in all (30%)");
  CHECK(line.within(prefix, 20) == "30%");
  line.share.clear();
  line.amount = "1.2 GiB read";
  CHECK(line.within(prefix, 20) == "1.2 GiB read");
}

TEST_CASE("progress: a narrow terminal keeps both ends of what has no figures") {
  ProgressPrinter printer;
  Progress progress{.phase = ProgressPhase::others,
                    .others = "1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)"};
  CHECK(printer.parts(progress).within("nodestage: n1: ", 40) ==
        shortened("nodestage: n1: ready here; " + progress.others, 40));
}

TEST_CASE("progress: the lines of a log become fewer as it lasts") {
  using std::chrono::seconds;
  CHECK(pause_of_lines(seconds(10), seconds(0)) == seconds(10));
  CHECK(pause_of_lines(seconds(10), seconds(100)) == seconds(20));
  CHECK(pause_of_lines(seconds(10), seconds(36000)) == seconds(300));
  CHECK(pause_of_lines(seconds(600), seconds(36000)) == seconds(600));
  int lines = 0;
  for (std::chrono::milliseconds now(0); now < std::chrono::hours(1); ++lines)
    now += pause_of_lines(seconds(10), now);
  CHECK(lines < 40);
}

TEST_CASE("progress: the nodes that are not ready are named") {
  ProgressPrinter printer;
  Progress progress{.phase = ProgressPhase::others};
  CHECK(printer.line(progress) == "ready here; waiting for the job's other nodes");
  progress.others = "1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)";
  CHECK(printer.line(progress) == "ready here; 1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)");
  progress.phase = ProgressPhase::queued;
  progress.others = "2 of 3 nodes are not ready";
  CHECK(printer.line(progress) ==
        "waiting for its turn to stage on this node; 2 of 3 nodes are not ready");
}

TEST_CASE("progress: of an environment that is built, what its installer says") {
  ProgressPrinter printer;
  Progress progress{
      .phase = ProgressPhase::staging, .items = 1, .current = "requirements.txt: Collecting numpy"};
  CHECK(printer.line(progress) == "requirements.txt: Collecting numpy");
}

TEST_CASE("progress: its lines with figures are known in an output, and no others") {
  ProgressPrinter printer;
  Progress progress = staging(1000, 2 * k_mib, 4 * k_mib);
  progress.files = 3;
  for (const std::uint32_t items : {1U, 2U}) {
    progress.items = items;
    for (const std::uint64_t total : {std::uint64_t{0}, 4 * k_mib}) {
      progress.bytes_total = total;
      progress.others = items == 1 ? "" : "1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)";
      CHECK(is_progress("n1: " + printer.line(progress)));
    }
  }
  for (const char* line : {"n1: a.tar -> /l/a: 3 files, 1.0 MiB in 2.0 s",
                           "n1: r -> /o: not delivered: full", "n1: the job runs; 3 files"})
    CHECK_FALSE(is_progress(line));
}
