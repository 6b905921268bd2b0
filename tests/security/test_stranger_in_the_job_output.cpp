// Attack: a job's output lies in a directory to which another user can write too, and that user has
// put something else there under its name, so that lines about the job's results change a file of
// its owner, or block the process that writes them.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>

#include "../unit/stage_out_job.hpp"
#include "daemon/worker/out/job_output.hpp"

using namespace nodestage;

namespace {

struct Output {
  Scratch scratch;
  AppendOrder order;
  explicit Output(LinesTo to) {
    write_file(scratch / "private", "private\n");
    fs::create_directory(scratch / "shared");
    order.job = 12;
    order.stdout_path = scratch / "shared/x.out";
    order.work_dir = scratch / "shared";
    order.lines_to = to;
  }
  [[nodiscard]] std::string name() const {
    return scratch / (order.lines_to == LinesTo::file ? "shared/nodestage-12.log" : "shared/x.out");
  }
  // Appends, and returns what the private file holds then.
  std::string append() const {
    CHECK(run_append(open_job_output(order), "a line\n", 1) == 0);
    return file_text(scratch / "private");
  }
};

}  // namespace

TEST_CASE("a link, a hard link, a FIFO or a directory in the place of the job's output") {
  for (const LinesTo to : {LinesTo::output, LinesTo::file}) {
    const Output link(to);
    fs::create_symlink("../private", link.name());
    CHECK(link.append() == "private\n");
    const Output hard_link(to);
    fs::create_hard_link(hard_link.scratch / "private", hard_link.name());
    CHECK(hard_link.append() == "private\n");
    const Output fifo(to);
    REQUIRE(::mkfifo(fifo.name().c_str(), 0666) == 0);
    CHECK(fifo.append() == "private\n");
    const Output directory(to);
    fs::create_directory(directory.name());
    CHECK(directory.append() == "private\n");
  }
}

TEST_CASE("another user's file in the place of the job's output") {
  if (::geteuid() != 0) return;  // who else could make one
  for (const LinesTo to : {LinesTo::output, LinesTo::file}) {
    const Output output(to);
    write_file(output.name(), "a stranger's\n");
    fs::permissions(output.name(), fs::perms::all);
    fs::permissions(output.scratch.path(), fs::perms::all);
    const AsUser nobody;
    output.append();
    CHECK(file_text(output.name()) == "a stranger's\n");
  }
}

TEST_CASE("a reader of the job's output who holds its lock delays the lines by little") {
  for (const LinesTo to : {LinesTo::output, LinesTo::file}) {
    const Output output(to);
    write_file(output.name(), "");
    const nodestage::Fd reader(::open(output.name().c_str(), O_RDONLY));
    struct flock whole {};
    whole.l_type = F_RDLCK;
    REQUIRE(::fcntl(reader.get(), F_OFD_SETLK, &whole) == 0);
    const auto begun = std::chrono::steady_clock::now();
    CHECK(output.append() == "private\n");
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(6));
    CHECK(file_text(output.name()) == "a line\n");
  }
}

TEST_CASE("a directory in the place of the notice: the notice has the node in its name, too") {
  Output output(LinesTo::output);
  output.order.node = "n1";
  fs::create_directory(output.scratch / "shared/nodestage-12.txt");
  CHECK(run_notice(output.order, "held\n") == 0);
  CHECK(file_text(output.scratch / "shared/nodestage-12-n1.txt") == "held\n");
  CHECK(names_in(output.scratch / "shared").size() == 2);
}
