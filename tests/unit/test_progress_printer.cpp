#include <doctest/doctest.h>

#include "common/talk/task_voice.hpp"
#include "tests/unit/sizes.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

Progress staging(std::uint64_t read, std::uint64_t total, std::uint64_t elapsed_ms) {
  Progress progress;
  progress.phase = ProgressPhase::staging;
  progress.items = 1;
  progress.bytes_read = read;
  progress.bytes_total = total;
  progress.files = 12345;
  progress.elapsed_ms = elapsed_ms;
  progress.current = "data.tar.gz";
  return progress;
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
  Progress progress;
  progress.phase = ProgressPhase::queued;
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

TEST_CASE("progress: a narrow terminal loses the last details first") {
  const std::string line =
      "n1: data.tar: 1.2 of 4.0 GiB (30%), about 9 s left, 310.0 MiB/s, 12,345 files";
  CHECK(without_details(line, 200) == line);
  CHECK(without_details(line, 70) ==
        "n1: data.tar: 1.2 of 4.0 GiB (30%), about 9 s left, 310.0 MiB/s");
  CHECK(without_details(line, 40) == "n1: data.tar: 1.2 of 4.0 GiB (30%)");
  CHECK(without_details(line, 20).size() == 20);
}

TEST_CASE("progress: the nodes that are not ready are named") {
  ProgressPrinter printer;
  Progress progress;
  progress.phase = ProgressPhase::others;
  CHECK(printer.line(progress) == "ready here; waiting for the job's other nodes");
  progress.others = "1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)";
  CHECK(printer.line(progress) == "ready here; 1 of 3 nodes is not ready: n3 (34% of 4.0 GiB)");
  progress.phase = ProgressPhase::queued;
  progress.others = "2 of 3 nodes are not ready";
  CHECK(printer.line(progress) ==
        "waiting for its turn to stage on this node; 2 of 3 nodes are not ready");
}

TEST_CASE("progress: on a narrow terminal the figures are what stays") {
  const std::string line =
      "nodestage: n1: a-very-long-name-of-a-data-set.tar.gz: 1.2 of 4.0 GiB (30%)";
  CHECK(without_details(line, 50) == "nodestage: n...ta-set.tar.gz: 1.2 of 4.0 GiB (30%)");
  CHECK(without_details(line, 30) == "1.2 of 4.0 GiB (30%)");
  CHECK(without_details(line, 20) == "1.2 of 4.0 GiB (30%)");
}

TEST_CASE("progress: of an environment that is built, what its installer says") {
  ProgressPrinter printer;
  Progress progress;
  progress.phase = ProgressPhase::staging;
  progress.items = 1;
  progress.current = "requirements.txt: Collecting numpy";
  CHECK(printer.line(progress) == "requirements.txt: Collecting numpy");
}
