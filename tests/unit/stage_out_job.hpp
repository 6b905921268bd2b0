// StageOutJob: a job directory, a target directory and run_stage_out() on them, in this process.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "any_delivery.hpp"
#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/stage_out.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace fs = std::filesystem;

// For its lifetime an ordinary user, so that rights mean something where tests run as root.
class AsUser {
 public:
  AsUser() : is_root_(geteuid() == 0) {
    if (!is_root_) return;
    if (setegid(65534) != 0 || seteuid(65534) != 0) abort();
    prctl(PR_SET_DUMPABLE, 1);  // else /proc/self/fd is root's
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser() {
    if (is_root_ && (seteuid(0) != 0 || setegid(0) != 0)) abort();
  }

 private:
  bool is_root_;
};

// Whether files there are in memory alone.
inline bool is_tmpfs(const fs::path& path) {
  struct statfs system {};
  return statfs(path.c_str(), &system) == 0 && system.f_type == 0x01021994;
}

// For its lifetime, scratch directories are made in memory.
class InMemory {
 public:
  InMemory() {
    const char* const before = getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    setenv("TMPDIR", "/dev/shm", 1);
  }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;
  ~InMemory() { before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1); }

 private:
  std::string before_;
};

inline struct stat lstat_of(const fs::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) info.st_mode = 0;
  return info;
}

inline ino_t inode_of(const fs::path& path) { return lstat_of(path).st_ino; }

// Bytes of a file whose copy takes several blocks.
inline constexpr std::size_t k_large = std::size_t{4} << 20;

enum class Times { nanoseconds, seconds };

// One line an entry: path, mode, mtime, and a link's text or a file's content. The root: its name
// only.
inline std::vector<std::string> describe(const fs::path& root, Times times = Times::nanoseconds) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const struct stat info = lstat_of(entry.path());
    std::ostringstream line;
    line << entry.path().lexically_relative(root).string() << ' ' << std::oct << info.st_mode;
    line << std::dec << ' ' << info.st_mtim.tv_sec;
    if (times == Times::nanoseconds) line << '.' << info.st_mtim.tv_nsec;
    if (entry.is_symlink()) line << " -> " << fs::read_symlink(entry.path()).string();
    if (S_ISREG(info.st_mode)) line << ' ' << info.st_nlink << ' ' << file_text(entry.path());
    lines.push_back(line.str());
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

inline std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class StageOutJob {
 public:
  // With these files in its directory.
  explicit StageOutJob(FileTexts files = {}) {
    for (const int fd : k_taken) {
      if (fcntl(fd, F_GETFD) < 0) reserve(fd);
    }
    fs::create_directory(directory);
    fs::create_directory(target);
    order.job = 42;
    order.user = "alice";
    order.node = "n1";
    order.directory = directory;
    order.outcome = nodestage::JobOutcome::success;
    rules.young = rules.removed = nodestage::SettleRules::Time(0);
    write_files(directory, files);
  }

  nodestage::OutputItem& ask(const std::string& source, const std::string& to) {
    nodestage::OutputItem item;
    item.source = source;
    item.target = to.starts_with('/') ? to : (target / to).string();
    request.outputs.push_back(item);
    return request.outputs.back();
  }

  // Asks for one output more, and delivers all. Returns the target.
  fs::path deliver(const std::string& source, const std::string& to) {
    ask(source, to);
    REQUIRE(run() == 0);
    return target / to;
  }

  // The exit code; `status` then holds what the daemon would read.
  int run() {
    using namespace nodestage;
    const Fd status_fd =
        high(open((scratch_ / "status").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600));
    const Fd directory_fd = high(open(directory.c_str(), O_RDONLY | O_DIRECTORY));
    dup2(status_fd.get(), k_worker_status_fd);
    dup2(directory_fd.get(), k_worker_directory_fd);
    const Fd list_fd = high(open(list.c_str(), O_RDWR | O_CREAT, 0600));
    const Fd rate_fd = high(memfd_create("rate", MFD_CLOEXEC));
    if (write(rate_fd.get(), &max_rate, sizeof max_rate) != sizeof max_rate) abort();
    if (order.keeps_list) {
      dup2(list_fd.get(), k_worker_delivered_fd);
      dup2(rate_fd.get(), k_worker_rate_fd);
    }
    const mode_t before = umask(022);
    const int code = order.task == WorkerTask::push ? run_push(order, request, rules)
                     : order.task == WorkerTask::recover
                         ? run_recover(order.recovery(), request)
                         : run_stage_out(order.at_end(), request, rules);
    umask(before);
    for (const int fd : k_taken) reserve(fd);
    auto read = read_worker_status(status_fd.get());
    status = read ? std::move(*read) : WorkerStatus{};
    return code;
  }

  [[nodiscard]] std::string note(std::size_t item = 0) const {
    return nodestage::field_text(status.items.at(item).note);
  }
  [[nodiscard]] std::string what(std::size_t item = 0) const {
    return nodestage::field_text(status.items.at(item).what);
  }
  [[nodiscard]] nodestage::ItemState state(std::size_t item = 0) const {
    return static_cast<nodestage::ItemState>(status.items.at(item).state);
  }

 private:
  // The numbers that run() takes. Between two runs they are open, too, or a file that another
  // thread opens could get one of them, and lose it to the next run.
  static constexpr int k_taken[] = {nodestage::k_worker_status_fd, nodestage::k_worker_directory_fd,
                                    nodestage::k_worker_delivered_fd, nodestage::k_worker_rate_fd};
  static void reserve(int fd) {
    const nodestage::Fd null = high(open("/dev/null", O_RDWR | O_CLOEXEC));
    dup2(null.get(), fd);
  }
  static nodestage::Fd high(int fd) {
    const nodestage::Fd low(fd);
    return nodestage::Fd(fcntl(low.get(), F_DUPFD_CLOEXEC, 100));
  }
  AsUser user_;
  Scratch scratch_;

 public:
  fs::path directory = scratch_ / "job";
  fs::path target = scratch_ / "target";
  AnyDelivery order;
  nodestage::StageRequest request;
  nodestage::WorkerStatus status;
  // With order.keeps_list:
  fs::path list = scratch_ / "list";
  std::uint64_t max_rate = 0;
  nodestage::SettleRules rules;
};

// While the job runs. Nothing waits: wait() is called instead.
class PushJob : public StageOutJob {
 public:
  explicit PushJob(FileTexts files = {}) : StageOutJob(files) {
    order.task = nodestage::WorkerTask::push;
    order.outcome = nodestage::JobOutcome::unknown;
    order.keeps_list = true;
    order.push_all = true;
    rules.wait = [this](std::chrono::milliseconds time) {
      waits.push_back(time);
      if (on_wait) on_wait();
    };
  }

  // At the end of the job.
  int run_end() {
    order.task = nodestage::WorkerTask::stage_out;
    return run();
  }
  [[nodiscard]] std::uint64_t files(std::size_t item = 0) const {
    return status.items.at(item).files;
  }
  [[nodiscard]] bool is_unsettled(std::size_t item = 0) const {
    return (status.items.at(item).flags & nodestage::k_item_unsettled) != 0;
  }

  std::function<void()> on_wait;
  std::vector<std::chrono::milliseconds> waits;
};

inline void set_mtime(const fs::path& path, time_t seconds, long nanoseconds) {
  const timespec times[2] = {{0, UTIME_OMIT}, {seconds, nanoseconds}};
  if (utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) abort();
}

// Temporary names, anywhere below.
inline std::vector<std::string> leftovers(const fs::path& root) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename().string().starts_with(".nodestage-")) found.push_back(entry.path());
  }
  return found;
}
