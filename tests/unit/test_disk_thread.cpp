#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/root/table/journal.hpp"
#include "disk_calls.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

DiskCalls& nodestage::disk_calls() {
  static DiskCalls calls;
  return calls;
}

extern "C" int fsync(int fd) {
  DiskCalls& calls = disk_calls();
  {
    std::unique_lock lock(calls.mutex);
    ++calls.counts[std::this_thread::get_id()];
    if (std::this_thread::get_id() != calls.test) {
      ++calls.held;
      calls.changed.notify_all();
      calls.changed.wait(lock, [&calls] { return !calls.is_holding; });
      --calls.held;
    }
    errno = calls.fault;
    if (calls.fault != 0) return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace {

struct DiskSite {
  Scratch scratch;
  Loop loop = std::move(*Loop::create());
  Fd directory = std::move(*open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY));
  std::vector<int> faults;
  Syncs syncs;
  std::optional<DiskThread> disk;

  DiskSite() { REQUIRE(disk.emplace(loop).start()); }
  ~DiskSite() { syncs.release(); }
  DiskSite(const DiskSite&) = delete;
  DiskSite& operator=(const DiskSite&) = delete;

  void write(const std::string& name, const std::string& text) {
    REQUIRE(disk->replace(directory.get(), name, text,
                          [this](const Error& fault) { faults.push_back(fault.code); }));
  }
  void await() {
    disk->then([this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto text = read_file(directory.get(), name, 1000);
    return text ? *text : "none";
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& file : fs::directory_iterator(scratch.path()))
      names.insert(file.path().filename());
    return names;
  }
};

}  // namespace

TEST_CASE("files are replaced and removed, and the last word about each counts") {
  DiskSite site;
  site.syncs.hold();
  site.write("first", "1");
  site.syncs.await_held();  // of what comes now, nothing is under way
  site.write("a", "1");
  site.write("a", "2");
  site.write("b", "1");
  site.disk->remove(site.directory.get(), "b");
  site.write("c", "1");
  site.disk->remove(site.directory.get(), "c");
  site.write("c", "2");
  CHECK(site.text("a") == "none");
  site.syncs.release();
  site.await();
  CHECK(site.files() == std::set<std::string>{"a", "c", "first"});
  CHECK(site.text("a") == "2");
  CHECK(site.text("c") == "2");
  CHECK(site.syncs.in_this_thread() == 0);
  CHECK(site.syncs.in_all() == 2 + 2 + 1);  // the first and its directory; two files and theirs
}

TEST_CASE("who waits is called when all before it is durable, in order, and not earlier") {
  DiskSite site;
  std::string called;
  site.disk->then([&called] { called += "0"; });
  CHECK(called == "0");  // nothing is under way
  site.syncs.hold();
  site.write("a", "1");
  site.disk->then([&called] { called += "1"; });
  site.syncs.await_held();
  site.write("a", "2");
  site.disk->then([&] { called += site.text("a"); });
  CHECK(called == "0");
  site.syncs.release();
  site.await();
  CHECK(called == "012");
}

TEST_CASE("what was written is found by the next daemon, whenever this one dies") {
  DiskSite site;
  site.syncs.hold();
  site.write("a", "0");
  site.syncs.await_held();
  site.write("a", "1");
  site.write("b", "1");
  const auto next = [&site](const std::string& text) {
    std::ofstream(site.scratch / ".a.99.new") << text;  // a last one, perhaps not whole
    std::ofstream(site.scratch / ".c.1.new") << "half";
    take_unfinished(site.directory.get(), 1000,
                    [](const std::string&, const std::string& it) { return it != "half"; });
  };
  SUBCASE("between two files") {
    next("9");
    CHECK(site.text("a") == "9");
  }
  SUBCASE("within one") {
    next("half");
    CHECK(site.text("a") == "1");
  }
  CHECK(site.text("b") == "1");
  CHECK(site.files() == std::set<std::string>{"a", "b"});
}

TEST_CASE("a file that cannot be made durable is told of, and kept until one can") {
  DiskSite site;
  site.write("a", "1");
  site.await();
  site.syncs.fail_with(EIO);
  site.write("a", "2");
  site.await();
  CHECK(site.faults == std::vector<int>{EIO});
  CHECK(site.text("a") == "1");
  CHECK(site.files().size() == 2);
  site.syncs.fail_with(0);
  site.write("a", "3");
  site.await();
  CHECK(site.text("a") == "3");
  CHECK(site.files() == std::set<std::string>{"a"});
}

TEST_CASE("at the end everything is durable") {
  DiskSite site;
  for (int i = 0; i < 200; ++i) site.write(std::to_string(i), "1");
  site.disk.reset();
  CHECK(site.files().size() == 200);
  CHECK(site.text("199") == "1");
}
