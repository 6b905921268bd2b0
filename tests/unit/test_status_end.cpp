#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "cli/status/status.hpp"
#include "common/os/file.hpp"
#include "common/talk/summary.hpp"
#include "scratch.hpp"
#include "status_sample.hpp"

using namespace nodestage;
using Lines = std::vector<std::string>;

namespace {

StatusReport over(const std::string& state, const Lines& lines) {
  StatusReport report;
  report.slurm_state = state;
  report.end.emplace();
  report.end->is_completing = state == "COMPLETING" || state == "STAGE_OUT";
  report.end->nodes = state == "COMPLETING" ? "n[1-2]" : "";
  report.end->output = "/home/alice/out";
  report.end->is_read = true;
  report.end->lines = lines;
  return report;
}

}  // namespace

TEST_CASE("of an output, nodestage's lines are taken, the last ones, printable") {
  CHECK(lines_of_nodestage("nodestage: n1: a\nx nodestage: n1: no\nnodestage:no\n"
                           "nodestage: n1: \x1b[2J\nnodestage: n2: b") ==
        Lines{"n1: a", "n1: \\x1b[2J", "n2: b"});
  CHECK(lines_of_nodestage("").empty());
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "nodestage: n1: " + std::to_string(i) + "\n";
  const Lines last = lines_of_nodestage(many);
  CHECK(last.size() == 40);
  CHECK(last.back() == "n1: 999");
}

TEST_CASE("of an output that several components share, the lines of one are taken") {
  const std::string kept = ": " + std::string(k_results_kept) + " x";
  const std::string output =
      "nodestage: n1: a\nnodestage: n2 (10+1)" + kept +
      "\nnodestage: n2: staged\nnodestage: n2 (10+2): " + std::string(k_kept_delivered) + "\n";
  CHECK(lines_of_nodestage(output, {"n2", "n2" + component_mark(10, 11)}) ==
        Lines{"n2 (10+1)" + kept, "n2: staged"});
  CHECK(has_failed(over("COMPLETED", lines_of_nodestage(output))));
}

TEST_CASE("of the progress in an output, what each node said last is shown") {
  const std::string at = "data.tar: 1.2 of 4.0 GiB (30%), 310.0 MiB/s, 12 files";
  CHECK(lines_of_nodestage("nodestage: n1: a\nnodestage: n1: " + at + "\nnodestage: n2: " + at +
                           "\nnodestage: n1: " + at + "\nnodestage: n1: b\n") ==
        Lines{"n1: a", "n2: " + at, "n1: " + at, "n1: b"});
}

TEST_CASE("an output is read if it is a regular file of its owner, and no lease is waited for") {
  const Scratch scratch;
  const std::string path = scratch / "out";
  std::ofstream(path) << "nodestage: n1: a\n";
  const auto text = read_output_end(path, ::geteuid());
  REQUIRE(text);
  CHECK(*text == "nodestage: n1: a\n");
  CHECK_FALSE(read_output_end(path, ::geteuid() + 1));
  CHECK_FALSE(read_output_end(scratch.path().string(), ::geteuid()));
  REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  CHECK_FALSE(read_output_end(scratch / "fifo", ::geteuid()));
  // The kernel sends SIGIO to the lease's holder, and would make a blocking open wait for it.
  const auto old = std::signal(SIGIO, SIG_IGN);
  const Fd leased(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (::fcntl(leased.get(), F_SETLEASE, F_WRLCK) == 0)
    CHECK(read_output_end(path, ::geteuid()).error().code == EWOULDBLOCK);
  else
    MESSAGE("the file system has no leases");
  ::fcntl(leased.get(), F_SETLEASE, F_UNLCK);
  std::signal(SIGIO, old);
}

TEST_CASE("a job has failed if Slurm says so, or if a result is not in its target") {
  CHECK_FALSE(has_failed(over("COMPLETED", {"n1: r -> /out: 1 file, 1 B in 0.0 s"})));
  CHECK_FALSE(has_failed(over("COMPLETING", {})));
  CHECK_FALSE(has_failed(over("STAGE_OUT", {"n1: r -> /out: 1 file, 1 B in 0.0 s"})));
  CHECK(has_failed(over("STAGE_OUT", {"n1: " + std::string(k_results_kept) + " x"})));
  for (const char* state : {"FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", ""})
    CHECK(has_failed(over(state, {})));
  for (const std::string_view what : {k_results_kept, k_results_lost_with_site, k_results_lost}) {
    CHECK(has_failed(over("COMPLETED", {"n1: " + std::string(what) + " x"})));
    CHECK(has_failed(over("COMPLETING", {"n1: " + std::string(what) + " x"})));
  }
  StatusReport runs;
  for (const char* state : {"queued", "staging", "ready", "staging_out", "gone"})
    runs.jobs.push_back(sample_job("n1", state, {}));
  CHECK_FALSE(has_failed(runs));
  runs.jobs.push_back(sample_job("n2", "held", {}));
  CHECK(has_failed(runs));
  runs.jobs.back().row.state = "failed";
  CHECK(has_failed(runs));
}

TEST_CASE(
    "what was kept and is delivered or recovered later is no failure, and no command fetches it") {
  const auto line = [](const char* node, std::string_view what) {
    return "nodestage: " + std::string(node) + ": " + std::string(what) + " x\n";
  };
  for (const std::string_view what : {k_kept_delivered, k_kept_recovered}) {
    const std::string both = "nodestage: n1: r -> /out: not delivered: full\n" +
                             line("n1", k_results_kept) + line("n2", k_results_kept);
    CHECK(has_failed(over("COMPLETED", lines_of_nodestage(both + line("n1", what)))));
    const Lines lines = lines_of_nodestage(both + line("n1", what) + line("n2", what));
    CHECK(lines.size() == 3);
    CHECK_FALSE(has_failed(over("COMPLETED", lines)));
    CHECK(has_failed(over("FAILED", lines)));
  }
  const Lines removed = lines_of_nodestage(line("n1", k_results_kept) + line("n1", k_kept_removed));
  CHECK(removed.size() == 1);
  CHECK(has_failed(over("COMPLETED", removed)));
  // A later run of the job.
  CHECK(has_failed(over(
      "COMPLETED", lines_of_nodestage(line("n1", k_kept_delivered) + line("n1", k_results_kept)))));
}

TEST_CASE("a job that has ended is shown with what its output says, and nothing moves any more") {
  const StatusReport report = over("COMPLETED", {"n1: r -> /out: 1 file"});
  CHECK(status_text(report, "12", Owners::hide) ==
        "job 12 is over (COMPLETED)\n  n1: r -> /out: 1 file\nthese are nodestage's lines in "
        "/home/alice/out; `nodestage report 12` shows what its nodes recorded\n");
  CHECK_FALSE(is_moving(report));
  const StatusReport ending = over("COMPLETING", {});
  CHECK(status_text(ending, "12", Owners::hide) ==
        "job 12 has ended and is COMPLETING on n[1-2]: if it has results, they are delivered there "
        "now\nnodestage writes what becomes of the results to /home/alice/out\n");
  CHECK(is_moving(ending));
  const StatusReport copies = over("STAGE_OUT", {"n1: r -> /out: 1 file"});
  CHECK(status_text(copies, "12", Owners::hide) ==
        "job 12 has ended and is STAGE_OUT: Slurm copies out its burst buffers\n"
        "  n1: r -> /out: 1 file\nthese are nodestage's lines in "
        "/home/alice/out; `nodestage report 12` shows what its nodes recorded\n");
  CHECK(is_moving(copies));
  StatusReport unknown = over("FAILED", {});
  CHECK(status_text(unknown, "12", Owners::hide).find("wrote nothing to its output") !=
        std::string::npos);
  unknown.end->is_read = false;
  CHECK(status_text(unknown, "12", Owners::hide).find("cannot be read on this host") !=
        std::string::npos);
  unknown.end->output.clear();
  CHECK(status_text(unknown, "12", Owners::hide).find("the terminal of srun or salloc") !=
        std::string::npos);
  unknown.end->output = "\x1b";
  CHECK(status_text(unknown, "12", Owners::hide).find('\x1b') == std::string::npos);
}
