#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <thread>

#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "limited.hpp"
#include "stage_out_job.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

struct Tree {
  AsUser user;
  Scratch scratch;
  fs::path root = scratch / "tree";
  Tree() { fs::create_directory(root); }

  Status remove() const {
    const Fd fd(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return remove_tree_contents(fd.get());
  }
};

// A chain of `levels` directories with a file in each, made through descriptors.
void make_chain(const fs::path& root, int levels) {
  Fd fd(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < levels; ++i) {
    mkdirat(fd.get(), "d", 0700);
    const Fd file(openat(fd.get(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    fd = Fd(openat(fd.get(), "d", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
}

}  // namespace

TEST_CASE("read-only and unreadable directories are removed") {
  const Tree tree;
  write_files(tree.root, {{"a/b/file", "x"}, {"closed/sub/file", "x"}, {".hidden", "x"}});
  fs::permissions(tree.root / "a/b", fs::perms(0500));
  fs::permissions(tree.root / "a", fs::perms(0500));
  fs::permissions(tree.root / "closed", fs::perms(0));
  fs::permissions(tree.root, fs::perms(0));
  CHECK(tree.remove());
  CHECK(fs::is_empty(tree.root));
}

TEST_CASE("a removal stops when it is told to") {
  const Tree tree;
  for (int i = 0; i < 10; ++i) write_file(tree.root / std::to_string(i), "x");
  const Fd fd(open(tree.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  int asked = 0;
  CHECK(remove_tree_contents(fd.get(), [&asked] { return ++asked > 3; }).error().code == EINTR);
  CHECK(asked == 4);
  CHECK(std::distance(fs::directory_iterator(tree.root), {}) == 7);
}

// Of each directory 16 names at a time; `stays` are left.
std::size_t steps_of_removal(const fs::path& root, const std::string& stays) {
  Fd fd(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  auto walk = must(TreeWalk::begin(std::move(fd), WalkFor::removing, 1));
  for (std::size_t steps = 0;; ++steps) {
    const auto step = must(walk.next());
    if (!step) return steps;
    const bool is_directory = step->kind == WalkStep::Kind::directory_end;
    if (step->kind != WalkStep::Kind::directory && step->name.find(stays) == std::string::npos)
      unlinkat(step->dir_fd, step->name.c_str(), is_directory ? AT_REMOVEDIR : 0);
  }
}

TEST_CASE("of a large directory, some names at a time are read, and all are removed") {
  const Tree tree;
  for (int i = 0; i < 100; ++i) write_file(tree.root / ("many/of" + std::to_string(i)), "x");
  for (int i = 0; i < 20; ++i) write_file(tree.root / ("d" + std::to_string(i)) / "e/f", "x");
  CHECK(steps_of_removal(tree.root, "nothing stays") == 100 + 2 * 1 + 20 * 5);
  CHECK(fs::is_empty(tree.root));
}

TEST_CASE(
    "what stays of a large directory ends no walk for removing, and is no reason to go on for "
    "ever") {
  const Tree tree;
  for (int i = 0; i < 100; ++i) write_file(tree.root / ("go" + std::to_string(i)), "x");
  for (int i = 0; i < 10; ++i) write_file(tree.root / ("stay" + std::to_string(i)), "x");
  steps_of_removal(tree.root, "stay");
  CHECK(std::distance(fs::directory_iterator(tree.root), {}) == 10);
  for (int i = 10; i < 60; ++i) write_file(tree.root / ("stay" + std::to_string(i)), "x");
  CHECK(steps_of_removal(tree.root, "stay") < 200);
}

TEST_CASE("a link to the outside is removed, what it leads to is not") {
  const Tree tree;
  write_file(tree.scratch.path() / "outside/file", "x");
  fs::permissions(tree.scratch / "outside", fs::perms(0500));
  fs::create_directory_symlink(tree.scratch / "outside", tree.root / "link");
  fs::create_symlink(tree.scratch / "outside/file", tree.root / "file");
  CHECK(tree.remove());
  CHECK(fs::is_empty(tree.root));
  CHECK(file_text(tree.scratch / "outside/file") == "x");
  CHECK((lstat_of(tree.scratch / "outside").st_mode & 0777) == 0500);
}

TEST_CASE("depth 5000 with few descriptors") {
  const Tree tree;
  make_chain(tree.root, 5000);
  {
    const Limited limited(RLIMIT_NOFILE, 64);
    CHECK(tree.remove());
  }
  CHECK(fs::is_empty(tree.root));
}

TEST_CASE("two at a time do no harm") {
  const Tree tree;
  for (int i = 0; i < 200; ++i) {
    for (int j = 0; j < 5; ++j) {
      write_file(tree.root / std::to_string(i) / std::to_string(j) / "file", "x");
    }
  }
  make_chain(tree.root, 200);
  Status one;
  std::thread other([&] { one = tree.remove(); });
  const Status two = tree.remove();
  other.join();
  CHECK(fs::is_empty(tree.root));
  CHECK((one && two));
}

TEST_CASE("what cannot be removed is named, the rest goes") {
  if (geteuid() != 0) {
    MESSAGE("skipped: needs root to make a foreign directory");
    return;
  }
  const Tree tree;
  write_file(tree.root / "mine/file", "x");
  if (seteuid(0) != 0) abort();
  write_file(tree.root / "foreign/file", "x");
  if (seteuid(65534) != 0) abort();
  CHECK(must_fail(tree.remove()).text() == "foreign/file: Permission denied");
  CHECK(names_in(tree.root) == std::vector<std::string>{"foreign"});
  if (seteuid(0) != 0) abort();
  CHECK(tree.remove());
  if (seteuid(65534) != 0) abort();
  CHECK(fs::is_empty(tree.root));
}

TEST_CASE("a mount point is not crossed") {
  if (geteuid() != 0) {
    MESSAGE("skipped: needs root to mount");
    return;
  }
  const Scratch scratch;
  write_files(scratch.path(), {{"outside/file", "x"}, {"tree/a/file", "x"}});
  fs::create_directories(scratch / "tree/mount");
  const pid_t child = fork();
  if (child == 0) {  // the same file system, so st_dev alone would not tell
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
        mount((scratch / "outside").c_str(), (scratch / "tree/mount").c_str(), "", MS_BIND, "") !=
            0) {
      _exit(77);
    }
    const Fd fd(open((scratch / "tree").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const Status removed = remove_tree_contents(fd.get());
    _exit(!removed && removed.error().text() == "mount: is a mount point and stays" ? 0 : 1);
  }
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  if (WEXITSTATUS(wait_status) == 77) {
    MESSAGE("skipped: no mount here");
    return;
  }
  CHECK(wait_status == 0);
  CHECK(file_text(scratch / "outside/file") == "x");
  CHECK_FALSE(fs::exists(scratch / "tree/a"));
}
