#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "cli/status/status.hpp"
#include "common/os/file.hpp"
#include "common/talk/summary.hpp"
#include "scratch.hpp"
#include "status_sample.hpp"
#include "texts.hpp"

using namespace nodestage;
using Lines = std::vector<std::string>;

TEST_CASE("status table: one node, with each kind of item") {
  StatusReport report;
  StatusItem waiting = sample_item(ItemState::waiting);
  waiting.bytes_read = waiting.bytes_total = 0;
  waiting.what = "";
  waiting.source = "/project/zwölf";
  StatusItem unknown = sample_item(ItemState::working);
  unknown.bytes_total = 0;
  StatusItem failed = sample_item(ItemState::failed);
  failed.note = "ends too early";
  report.jobs.push_back(sample_job(
      "n1", "staging",
      {sample_item(ItemState::working), unknown, sample_item(ItemState::done), waiting, failed}));
  CHECK(status_text(report, "", Owners::hide) ==
        "job 12: staging\n"
        "  NODE  STATE    ITEM                  ITEM STATE  BYTES                 FILES   RATE     "
        "    LEFT\n"
        "  n1    staging  data.tar.gz (tar.gz)  working     1.0 of 4.0 MiB (25%)  12,345  512.0 "
        "KiB/s  about 6 s\n"
        "                 data.tar.gz (tar.gz)  working     1.0 MiB read          12,345  512.0 "
        "KiB/s  -\n"
        "                 data.tar.gz (tar.gz)  done        8.0 MiB               12,345  4.0 "
        "MiB/s    -\n"
        "                 zwölf                 waiting     -                     -       -       "
        "     -\n"
        "                 data.tar.gz (tar.gz)  failed      -                     -       -       "
        "     -\n"
        "  n1: data.tar.gz (tar.gz): ends too early\n");
}

TEST_CASE("status table: an item that was there already has a note and no figures") {
  StatusReport report;
  StatusItem linked = sample_item(ItemState::done);
  linked.flags = k_item_shared | k_item_linked;
  linked.bytes_read = linked.bytes_total = linked.bytes_written = linked.files = 0;
  linked.note = "shared, already here (staged by job 7)";
  report.jobs.push_back(sample_job("n1", "ready", {linked}));
  CHECK(status_text(report, "", Owners::hide) ==
        "job 12: ready\n"
        "  NODE  STATE  ITEM                  ITEM STATE  BYTES  FILES  RATE  LEFT\n"
        "  n1    ready  data.tar.gz (tar.gz)  done        -      -      -     -\n"
        "  n1: data.tar.gz (tar.gz): shared, already here (staged by job 7)\n");
}

TEST_CASE("status table: outputs that are delivered while the job runs have their target") {
  StatusReport report;
  StatusItem results = sample_item(ItemState::done);
  results.kind = ItemKind::output;
  results.source = "results";
  results.destination = "/scratch/run1";
  results.what.clear();
  results.note = "delivered 2026-11-24 14:05";
  StatusItem other = results;
  other.source = "logs";
  other.state = ItemState::skipped;
  other.note.clear();
  report.jobs.push_back(sample_job("n1", "ready", {results, other}));
  CHECK(status_text(report, "", Owners::hide) ==
        "job 12: ready\n"
        "  NODE  STATE  ITEM     ITEM STATE  BYTES    FILES   RATE       LEFT\n"
        "  n1    ready  results  done        8.0 MiB  12,345  4.0 MiB/s  -\n"
        "               logs     at the end  -        -       -          -\n"
        "  n1: results -> /scratch/run1: delivered 2026-11-24 14:05\n");
}

TEST_CASE("status table: colour marks what has failed and what is held, if it is asked for") {
  StatusReport report;
  report.jobs.push_back(sample_job("n1", "held", {sample_item(ItemState::failed)}));
  const std::string text = status_text(report, "", Owners::hide, true);
  check_has(text, {"\x1b[33mheld\x1b[0m", "\x1b[31mfailed"});
  CHECK_FALSE(has(status_text(report, "", Owners::hide), "\x1b"));
}

TEST_CASE("status table: the nodes of a job, and what is to be said of them") {
  StatusReport report;
  report.jobs.push_back(sample_job("n1", "ready", {sample_item(ItemState::done)}));
  report.jobs.push_back(sample_job("n2", "queued", {}));
  report.jobs.push_back(sample_job("n3", "ready", {}));
  report.jobs[0].row.others = "1 of 4 nodes is not ready: n2";
  report.jobs[2].row.cause = "what\nto do";
  report.jobs[2].row.kept_in = "/hold";
  report.faults.push_back({"n4", "no answer within 20 s"});
  StatusItem failed = sample_item(ItemState::failed);
  failed.note = "what. to do";  // as the cause: once is enough
  report.jobs[2].items = {failed, failed};
  report.jobs[2].items[1].note = "another";
  const std::string text = status_text(report, "12", Owners::name);
  CHECK(text.starts_with("job 12 of alice: queued on 1 node, ready on 2\n"));
  CHECK(
      text.ends_with("  n1: 1 of 4 nodes is not ready: n2\n"
                     "  n3: data.tar.gz (tar.gz): another\n"
                     "  n3: what\n"
                     "    to do\n"
                     "  n3: kept in /hold\n"
                     "  n4: no answer within 20 s\n"));
  CHECK(has(text, "\n  n2    queued  -  "));
}

TEST_CASE("status table: runs of one job are apart") {
  StatusReport report;
  report.jobs.push_back(sample_job("n1", "held", {}));
  report.jobs.push_back(sample_job("n1", "staging", {}));
  report.jobs[1].row.restart = 1;
  const std::string text = status_text(report, "12", Owners::hide);
  CHECK(text.starts_with("job 12: held\n"));
  CHECK(has(text, "\njob 12 (restart 1): staging\n"));
}

TEST_CASE("status table: when there is nothing to show") {
  StatusReport report;
  CHECK(status_text(report, "", Owners::hide) == "nodestaged knows no job of yours on this node\n");
  report.slurm_state = "PENDING";
  report.reason = "Priority";
  CHECK(status_text(report, "12", Owners::hide) ==
        "job 12 is pending: its staging starts when the job starts (Priority)\n");
  report.reason = "None";
  CHECK(status_text(report, "12", Owners::hide) ==
        "job 12 is pending: its staging starts when the job starts\n");
  report.slurm_state = "SUSPENDED";
  CHECK(status_text(report, "12", Owners::hide).starts_with("job 12 is suspended: "));
  report.faults.push_back({"n1", "why"});
  CHECK(status_text(report, "12", Owners::hide) ==
        "job 12: no node has reported anything about it\n  n1: why\n");
}

TEST_CASE("status table: nothing of a node drives the terminal") {
  StatusReport report;
  StatusItem item = sample_item(ItemState::working);
  item.source = "/\x1b[2J" + std::string(100, 'x');
  item.what = item.note = "\x07";
  report.jobs.push_back(sample_job("n\x1b", "sta\nging", {item}));
  report.jobs[0].row.cause = report.jobs[0].row.user = "\x1b]0;x\x07";
  report.faults.push_back({"\x1b", "\x1b"});
  const std::string text = status_text(report, "12", Owners::name);
  CHECK(text.find_first_of("\x1b\x07") == std::string::npos);
}

TEST_CASE(
    "status table: on a narrow screen the rate and the time left stay, and names get shorter") {
  StatusReport report;
  StatusItem item = sample_item(ItemState::working);
  item.source = "/project/a-data-set-with-a-long-name.tar.gz";
  report.jobs.push_back(sample_job("n1", "staging", {item}));
  const auto at = [&report](std::size_t width) {
    return status_text(report, "", Owners::hide, false, width);
  };
  CHECK(at(200) == status_text(report, "", Owners::hide));
  for (const std::size_t width : {200U, 110U, 100U, 90U, 80U, 70U}) {
    const std::string text = at(width);
    CHECK(has(text, "512.0 KiB/s  about 6 s\n"));
    for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
      CHECK(text.find('\n', begin) - begin <= width);
  }
  CHECK(at(80) ==
        "job 12: staging\n"
        "  NODE  ITEM            ITEM STATE  BYTES                 RATE         LEFT\n"
        "  n1    a-dat...ar.gz)  working     1.0 of 4.0 MiB (25%)  512.0 KiB/s  about 6 s\n");
  CHECK(has(at(60), "(25%)  about 6 s\n"));
}

TEST_CASE("status table: what several nodes say stands there once") {
  StatusReport report;
  for (const char* node : {"n1", "n2", "n3"}) {
    report.jobs.push_back(sample_job(node, "failed", {}));
    report.jobs.back().row.cause = "data.tar ends too early\nCopy it again.";
  }
  report.jobs[2].row.cause = "node n1: " + report.jobs[0].row.cause;
  report.faults = {{"n4", "no answer"},
                   {"n5", "no answer"},
                   {"n6", "no answer"},
                   {"n7", "no answer"},
                   {"n8", "no answer"}};
  CHECK(status_text(report, "", Owners::hide)
            .ends_with("  n1, n2 and n3: data.tar ends too early\n    Copy it again.\n"
                       "  n4, n5, n6 and 2 more: no answer\n"));
}

namespace {

StatusReport over(const std::string& state, const Lines& lines) {
  StatusReport report{.slurm_state = state};
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

TEST_CASE("of a later component that never started, nothing in the first one's output is shown") {
  const Scratch scratch;
  const std::string output = scratch / "slurm-10.out";
  std::ofstream(output) << "nodestage: n1: a\nnodestage: n1: " << k_results_kept << " x\n";
  std::ofstream(scratch / "scontrol") << "#!/bin/sh\n"
                                         "[ $2 = job ] || { [ -n \"$3\" ] && echo \"$3\"; exit; }\n"
                                         "echo 'JobId=11 HetJobId=10 HetJobOffset=1 JobName=a'\n"
                                         "echo '   StdOut="
                                      << output << "'\n";
  ::chmod((scratch / "scontrol").c_str(), 0700);
  const std::string path = ::getenv("PATH") == nullptr ? "" : ::getenv("PATH");
  ::setenv("PATH", (scratch.path().string() + ":" + path).c_str(), 1);
  SlurmJob job;
  job.id = 11;
  job.uid = ::geteuid();
  job.state = "COMPLETED";
  const JobEnd never = end_of_job(job, "10+1");
  job.nodes = "n1";
  const JobEnd started = end_of_job(job, "10+1");
  ::setenv("PATH", path.c_str(), 1);
  CHECK(never.output == output);
  CHECK(never.is_read);
  CHECK(never.lines.empty());
  CHECK_FALSE(has_failed(over("COMPLETED", never.lines)));
  CHECK(started.lines.size() == 2);
}

TEST_CASE(
    "results that did not arrive are known by their notice, if the output says nothing of them") {
  const Scratch scratch;
  const std::string notice = scratch / "nodestage-12-n2.txt";
  std::ofstream(scratch / "nodestage-123.txt") << "of another job\n";
  std::ofstream(scratch / "scontrol")
      << "#!/bin/sh\necho 'JobId=12 JobName=a'\n"
         "echo '   WorkDir="
      << scratch.path().string() << "'\necho '   StdOut=/dev/null'\n";
  ::chmod((scratch / "scontrol").c_str(), 0700);
  const std::string path = ::getenv("PATH") == nullptr ? "" : ::getenv("PATH");
  ::setenv("PATH", (scratch.path().string() + ":" + path).c_str(), 1);
  SlurmJob job;
  job.id = 12;
  job.uid = ::geteuid();
  job.state = "COMPLETED";
  StatusReport report = over("COMPLETED", {});
  report.end = end_of_job(job, "12");
  CHECK_FALSE(has_failed(report));
  std::ofstream(scratch / "nodestage-12-report.txt") << "of the user's own\n";
  report.end = end_of_job(job, "12");
  CHECK_FALSE(has_failed(report));
  std::ofstream(notice) << "nodestage: job 12, node n2\n\nThese results could not be delivered:\n";
  report.end = end_of_job(job, "12");
  CHECK(has_failed(report));
  CHECK(has(end_text(*report.end, "12", "COMPLETED"), notice + " has the reason"));
  std::ofstream(notice) << "All results are delivered now. You " << k_notice_is_over << "\n";
  report.end = end_of_job(job, "12");
  CHECK_FALSE(has_failed(report));
  ::setenv("PATH", path.c_str(), 1);
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
  CHECK(must(read_output_end(path, ::geteuid())) == "nodestage: n1: a\n");
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
  CHECK(has(status_text(unknown, "12", Owners::hide), "wrote nothing to its output"));
  unknown.end->is_read = false;
  CHECK(has(status_text(unknown, "12", Owners::hide), "cannot be read on this host"));
  unknown.end->output.clear();
  CHECK(has(status_text(unknown, "12", Owners::hide), "the terminal of srun or salloc"));
  unknown.end->output = "\x1b";
  CHECK(status_text(unknown, "12", Owners::hide).find('\x1b') == std::string::npos);
}
