#include <doctest/doctest.h>

#include <thread>

#include "daemon/worker/out/job_output.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;

namespace {

AppendOrder order_of(std::string stdout_path) {
  AppendOrder order;
  order.job = 12;
  order.user = "alice";
  order.node = "n1";
  order.node_index = 0;
  order.array_known = true;
  order.job_name = "train";
  order.stdout_path = std::move(stdout_path);
  order.work_dir = "/w";
  return order;
}

std::string path_of(const char* stdout_path) { return job_output_path(order_of(stdout_path)); }

int append(const AppendOrder& order, std::string_view lines) {
  return run_append(open_job_output(order), lines, order.node_count);
}

}  // namespace

TEST_CASE("the output file of a job, as sbatch names it") {
  CHECK(path_of("") == "/w/slurm-12.out");
  CHECK(path_of("/a/slurm-12.out") == "/a/slurm-12.out");
  CHECK(path_of("slurm-%j.out") == "/w/slurm-12.out");
  CHECK(path_of("/a/%x/%4j_%u-%N-%n%%") == "/a/train/0012_alice-n1-0%");
  CHECK(path_of("/a/%A_%a.out") == "/a/12_4294967294.out");
  CHECK(path_of("/a/back\\slash-%j") == "/a/backslash-%j");
  CHECK(path_of("/a/two\\\\%j") == "/a/two\\%j");
  CHECK(path_of("/a/%J_%t_%s-%%t%") == "");
  CHECK(path_of("/a/%J_%t_%s-%%t") == "/a/12_0_batch-%t");
  CHECK(path_of("/a/%r.out") == "");  // a pattern of --stage-out alone
  CHECK(path_of("/a/%z.out") == "");
}

TEST_CASE(
    "a later component appends to the output of the first, or beside it where there is none") {
  const Scratch scratch;
  AppendOrder order = order_of("");
  order.work_dir = scratch.path();
  order.output_job = 11;
  order.array_known = false;  // no step has run in it
  CHECK(append(order, "a\n") == 0);
  check_files(scratch, {{"nodestage-12.log", "a\n"}});
  write_files(scratch, {{"slurm-11.out", "x\n"}, {"slurm-12.out", ""}});
  CHECK(append(order, "b\n") == 0);
  check_files(scratch,
              {{"nodestage-12.log", "a\n"}, {"slurm-11.out", "x\nb\n"}, {"slurm-12.out", ""}});
}

TEST_CASE("a later component appends to no file that another node or another name could mean") {
  const Scratch scratch;
  write_files(scratch, {{"n1.out", "of another job\n"}, {"train.out", "x\n"}});
  AppendOrder order = order_of(scratch / "%N.out");
  order.work_dir = scratch.path();
  order.output_job = 11;
  CHECK(append(order, "a\n") == 0);
  order.stdout_path = scratch / "%x.out";
  CHECK(append(order, "b\n") == 0);
  order.job_name.clear();  // the first component's is not known
  CHECK(append(order, "c\n") == 0);
  check_files(
      scratch,
      {{"n1.out", "of another job\n"}, {"train.out", "x\nb\n"}, {"nodestage-12.log", "a\nc\n"}});
}

TEST_CASE("the output file as other nodes than the first know it") {
  AppendOrder order = order_of("/a/%j-%n.out");
  order.node_count = 3;
  order.node_index = 2;
  order.node = "n3";
  CHECK(job_output_path(order) == "/a/12-0.out");
  order.stdout_path = "/a/%N.out";
  CHECK(job_output_path(order) == "");
  order.stdout_path = "/a/%a.out";
  order.array_known = false;
  CHECK(job_output_path(order) == "");
  order.stdout_path.clear();
  CHECK(job_output_path(order) == "");
  order.array_known = true;
  order.array_job = 11;
  order.array_task = 3;
  CHECK(job_output_path(order) == "/w/slurm-11_3.out");
}

TEST_CASE("lines come after what is there, each whole") {
  const Scratch scratch;
  write_files(scratch,
              {{"whole.out", "of the job\n"}, {"cut.out", "of the job"}, {"empty.out", ""}});
  CHECK(append(order_of(scratch / "whole.out"), "a\nb\n") == 0);
  CHECK(append(order_of(scratch / "whole.out"), "c\n") == 0);
  CHECK(append(order_of(scratch / "cut.out"), "a\n") == 0);
  CHECK(append(order_of(scratch / "empty.out"), "a\n") == 0);
  check_files(scratch, {{"whole.out", "of the job\na\nb\nc\n"},
                        {"cut.out", "of the job\na\n"},
                        {"empty.out", "a\n"}});
}

TEST_CASE("several nodes append at once, and no line is torn or lost") {
  const Scratch scratch;
  write_file(scratch / "x.out", "");
  const std::string lines = std::string(3000, 'a') + "\n" + std::string(3000, 'b') + "\n";
  std::vector<std::thread> nodes;
  for (int i = 0; i < 8; ++i)
    nodes.emplace_back([&] { append(order_of(scratch / "x.out"), lines); });
  for (std::thread& node : nodes) node.join();
  std::string all;
  for (int i = 0; i < 8; ++i) all += lines;
  CHECK(file_text(scratch / "x.out") == all);
}

TEST_CASE("what is not there is not made, but for a file of its own") {
  const Scratch scratch;
  AppendOrder order = order_of(scratch / "%x.out");
  CHECK(append(order, "a\n") == 0);
  CHECK(names_in(scratch.path()).empty());
  order.lines_to = LinesTo::file;
  CHECK(append(order, "a\n") == 0);
  CHECK(append(order, "b\n") == 0);
  CHECK(file_text(scratch / "nodestage-12.log") == "a\nb\n");
  CHECK((lstat_of(scratch / "nodestage-12.log").st_mode & 0077) == 0);
}

TEST_CASE("the notice lies beside the job's output, or else in the work directory") {
  CHECK(notice_directory("", "/w") == "/w");
  CHECK(notice_directory("slurm-%j.out", "/w") == "/w");
  CHECK(notice_directory("logs/%x.out", "/w") == "/w/logs");
  CHECK(notice_directory("/a/b/c.out", "/w") == "/a/b");
  CHECK(notice_directory("/c.out", "/w") == "/");
  CHECK(notice_directory("/a/%x/c.out", "/w") == "/w");
  CHECK(notice_directory("/dev/null", "/w") == "/w");
}

TEST_CASE("its name, with the restart and the node where there are several") {
  NoticeOrder order;
  order.job = 12;
  order.node = "n1";
  CHECK(notice_name(order) == "nodestage-12.txt");
  order.restart = 1;
  CHECK(notice_name(order) == "nodestage-12.1.txt");
  order.restart = 0;
  order.node_count = 2;
  CHECK(notice_name(order) == "nodestage-12-n1.txt");
}

TEST_CASE("a notice replaces the name, not what a link of that name leads to; mode 0600") {
  const Scratch scratch;
  NoticeOrder order;
  order.job = 12;
  order.stdout_path = scratch / "gone/slurm-%j.out";
  order.work_dir = scratch / "work";
  write_file(scratch / "work/precious", "precious");
  fs::create_symlink("precious", scratch / "work/nodestage-12.txt");
  CHECK(run_notice(order, "first") == 0);
  CHECK(run_notice(order, "second") == 0);
  check_files(scratch, {{"work/nodestage-12.txt", "second"}, {"work/precious", "precious"}});
  CHECK((lstat_of(scratch / "work/nodestage-12.txt").st_mode & 07777) == 0600);
  CHECK(names_in(scratch / "work").size() == 2);
  order.work_dir = scratch / "nowhere";
  CHECK(run_notice(order, "third") == 1);
}

TEST_CASE("the size of a tree: what it takes on disk, a file of two names once") {
  const Scratch scratch;
  write_file(scratch / "tree/sub/a", std::string(300'000, 'x'));
  fs::create_hard_link(scratch / "tree/sub/a", scratch / "tree/b");
  fs::create_symlink("/etc/passwd", scratch / "tree/link");
  const nodestage::Fd tree(open((scratch / "tree").c_str(), O_RDONLY | O_DIRECTORY));
  const auto size = measure_tree(tree.get());
  REQUIRE(size);
  CHECK(size->inodes == 4);  // with each name of a file
  CHECK(size->bytes >= 300'000);
  CHECK(size->bytes < 400'000);
}
