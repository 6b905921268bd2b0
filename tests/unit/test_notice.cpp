#include <doctest/doctest.h>

#include "daemon/worker/out/job_output.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;

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
