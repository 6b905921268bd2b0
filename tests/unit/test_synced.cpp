// What is told to be delivered is on stable storage: each file, each directory in which a name was
// made, and the names of the target's own directories.
#include <doctest/doctest.h>
#include <sys/syscall.h>

#include <mutex>
#include <set>
#include <utility>

#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;

namespace {

using File = std::pair<dev_t, ino_t>;

struct Synced {
  std::mutex mutex;
  std::set<File> files;
  std::set<std::string> names;  // of files, while they were stored
  std::set<dev_t> devices;      // as a whole
  File faulty = {};             // cannot be stored
};
Synced synced;

File file_of(const fs::path& path) {
  const struct stat info = lstat_of(path);
  return {info.st_dev, info.st_ino};
}

void forget() {
  const std::lock_guard lock(synced.mutex);
  synced.files.clear();
  synced.names.clear();
  synced.devices.clear();
}

// Of `root` and all in it, links apart.
std::vector<std::string> not_synced(const fs::path& root) {
  std::vector<std::string> missing;
  const auto look = [&](const fs::path& path) {
    if (!fs::is_symlink(path) && synced.files.count(file_of(path)) == 0) missing.push_back(path);
  };
  look(root);
  for (const auto& entry : fs::recursive_directory_iterator(root)) look(entry.path());
  return missing;
}

}  // namespace

// In the place of the library's.
extern "C" int fsync(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) == 0) {
    const std::lock_guard lock(synced.mutex);
    const File file{info.st_dev, info.st_ino};
    if (file == synced.faulty) {
      errno = EIO;
      return -1;
    }
    synced.files.insert(file);
    if (S_ISREG(info.st_mode)) synced.names.insert(fs::path(path_of(fd)).filename());
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int syncfs(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) == 0) {
    const std::lock_guard lock(synced.mutex);
    synced.devices.insert(info.st_dev);
  }
  return 0;
}

TEST_CASE("all that was delivered is stored, with the directories above it that were made") {
  StageOutJob job({{"results/a/b/small", "x"},
                   {"results/large", std::string(5 << 20, 'x')},
                   {"results/closed/file", "x"}});
  fs::create_hard_link(job.directory / "results/large", job.directory / "results/a/again");
  fs::create_symlink("large", job.directory / "results/link");
  fs::permissions(job.directory / "results/closed", fs::perms(0500));
  const AsUser user;
  for (const std::string target : {"1/made/contents", "2/made/", "3/made/a.tar.gz"}) {
    CAPTURE(target);
    job.request.outputs.clear();
    job.ask("results", target);
    forget();
    REQUIRE(job.run() == 0);
    CHECK(synced.files.count(file_of(job.target)) == 1);
    CHECK(not_synced(job.target / target.substr(0, 1)) == std::vector<std::string>{});
    CHECK(synced.devices.empty());  // nobody else's data
  }
}

TEST_CASE("what is put into a directory that may not be read is stored with its file system") {
  StageOutJob job({{"results/f", "f"}});
  const AsUser user;
  REQUIRE(chmod(job.target.c_str(), 0300) == 0);
  for (const std::string target : {"f", "new/", "a.tar"}) {
    CAPTURE(target);
    job.request.outputs.clear();
    job.ask(target == "f" ? "results/f" : "results", target);
    forget();
    CHECK(job.run() == 0);
    CHECK(synced.devices.size() == 1);
  }
  REQUIRE(chmod(job.target.c_str(), 0700) == 0);
}

TEST_CASE("what could not be stored was not delivered, also the name of a directory above") {
  for (const std::string faulty : {"", "made"}) {
    CAPTURE(faulty);
    StageOutJob job({{"results/f", "f"}});
    const AsUser user;
    if (!faulty.empty()) fs::create_directory(job.target / faulty);
    synced.faulty = file_of(job.target / faulty);
    job.ask("results", "made/above");
    CHECK(job.run() == 1);
    CHECK(job.note().find("did not store a new directory") != std::string::npos);
    synced.faulty = {};
  }
}

TEST_CASE("a push stores each file before it has its name, and the directories that changed") {
  PushJob job;
  for (const char* name : {"a/f", "b/f", "c/deep/f"})
    write_file(job.directory / "results" / name, "x");
  fs::create_directories(job.target / "out/c");  // somebody else's
  job.ask("results", "out");
  forget();
  REQUIRE(job.run() == 0);
  CHECK(not_synced(job.target / "out") == std::vector<std::string>{});
  forget();
  REQUIRE(job.run() == 0);
  CHECK(synced.files.empty());
  write_file(job.directory / "results/b/f", "y");
  forget();
  REQUIRE(job.run() == 0);
  CHECK(synced.files ==
        std::set<File>{file_of(job.target / "out/b"), file_of(job.target / "out/b/f")});
  write_file(job.directory / "results/c/new", "y");
  forget();
  REQUIRE(job.run() == 0);
  CHECK(synced.files ==
        std::set<File>{file_of(job.target / "out/c"), file_of(job.target / "out/c/new")});
  for (const std::string& name : synced.names) CHECK(name.starts_with(".nodestage-"));
  CHECK_FALSE(synced.names.empty());
  CHECK(synced.devices.empty());
}

TEST_CASE("nothing is stored for what a push only looks at") {
  PushJob job;
  for (const char* name : {"a/f", "b/f", "b/g"}) write_file(job.directory / "results" / name, "x");
  fs::create_directories(job.target / "out/b");  // somebody else's
  fs::permissions(job.target / "out/b", fs::perms(0700));
  job.deliver("results", "out");
  const Fd low(::open((job.directory / "results/a/f").c_str(), O_RDWR | O_CLOEXEC));
  const Fd writer(::fcntl(low.get(), F_DUPFD_CLOEXEC, 100));
  REQUIRE(::write(writer.get(), "y", 1) == 1);
  fs::remove(job.directory / "results/b/g");
  forget();
  REQUIRE(job.run() == 0);
  CHECK(job.is_unsettled());
  CHECK(synced.files.empty());
  CHECK((lstat_of(job.target / "out/a").st_mode & S_ISVTX) == 0);
}

TEST_CASE(
    "after a push that was cut off the next one stores all directories, also without a file") {
  PushJob job;
  for (const char* name : {"a/f", "b/f"}) write_file(job.directory / "results" / name, "x");
  fs::create_directories(job.target / "out/b");
  job.deliver("results", "out");
  {
    const Fd list_fd(::open(job.list.c_str(), O_RDWR | O_CLOEXEC));
    DeliveredList list(list_fd.get());
    list.begin("");
    list.begin_output(0);
  }
  for (const bool is_first : {true, false}) {
    forget();
    REQUIRE(job.run() == 0);
    CHECK(job.files() == 0);
    for (const char* name : {"out", "out/a", "out/b"})
      CHECK((synced.files.count(file_of(job.target / name)) == 1) == is_first);
  }
}

TEST_CASE("what a push could not store is copied again") {
  PushJob job({{"results/a/f", "x"}});
  job.deliver("results", "out");
  write_file(job.directory / "results/a/f", "y");
  synced.faulty = file_of(job.target / "out/a");
  CHECK(job.run() == 1);
  CHECK(job.note().find("did not store all") != std::string::npos);
  synced.faulty = {};
  CHECK(job.run() == 0);
  CHECK(job.files() == 1);
}
