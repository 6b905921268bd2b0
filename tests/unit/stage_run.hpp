// StageRun: run_stage() in a child process with a worker's descriptors, as a user who is not root.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/share/identify.hpp"
#include "daemon/worker/stage/stage.hpp"
#include "scratch.hpp"

inline constexpr unsigned k_test_uid = 65534;  // when the tests themselves run as root

// Runs `action` in a child, as that user. No other thread may run: the child would inherit its
// locks.
template <typename Action>
pid_t start_as_user(Action action) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (::geteuid() == 0 &&
      (::setgroups(0, nullptr) != 0 || ::setgid(k_test_uid) != 0 || ::setuid(k_test_uid) != 0)) {
    ::_exit(120);
  }
  ::_exit(action());
}

// The exit code of that child, or 128 + signal.
inline int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

template <typename Action>
int as_user(Action action) {
  return end_of(start_as_user(action));
}

// A shell command as that user, in `directory`. Until it is a shell, the child has our memory
// instead of a copy, which costs more than the command where there are sanitizers. The calls of the
// C library would change all of our threads.
inline int shell(const std::string& directory, const std::string& command) {
  const bool is_root = ::geteuid() == 0;
  const pid_t child = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (child != 0) return end_of(child);
  if (is_root && (::syscall(SYS_setgroups, 0, nullptr) != 0 ||
                  ::syscall(SYS_setresgid, k_test_uid, k_test_uid, k_test_uid) != 0 ||
                  ::syscall(SYS_setresuid, k_test_uid, k_test_uid, k_test_uid) != 0)) {
    ::_exit(120);
  }
  if (::chdir(directory.c_str()) != 0) ::_exit(121);
  ::umask(022);
  ::execl("/bin/bash", "bash", "-c", command.c_str(), nullptr);
  ::_exit(122);
}

class StageRun {
 public:
  nodestage::StageOrder order;
  nodestage::WorkerTask task = nodestage::WorkerTask::stage;  // or identify, compare
  nodestage::StageRequest request;

  // With what a shell command makes in the data directory.
  explicit StageRun(const std::string& command = ":") {
    namespace fs = std::filesystem;
    job_ = scratch_ / "job";
    data_ = scratch_ / "data";
    for (const auto& directory : {job_, data_}) {
      fs::create_directory(directory);
      if (::geteuid() == 0 && ::chown(directory.c_str(), k_test_uid, k_test_uid) != 0) std::abort();
    }
    ::chmod(scratch_.path().c_str(), 0755);
    order.node = "n1";
    order.threads = 2;
    order.directory = job_;
    prepare(command);
  }
  ~StageRun() { shell("/", "chmod -R u+rwX " + job_ + " " + data_ + " 2>/dev/null"); }

  // Adds a dataset of `name` in the data directory.
  nodestage::DatasetItem& add(const std::string& name) {
    request.datasets.push_back({});
    request.datasets.back().source = name.starts_with('/') ? name : data_ + "/" + name;
    return request.datasets.back();
  }

  // The exit code; `status` holds what the daemon would read.
  int run() {
    const nodestage::Fd status_fd(::memfd_create("status", 0));
    const nodestage::Fd answer_fd(::memfd_create("answer", 0));
    const pid_t worker =
        start_as_user([&] { return child(status_fd.get(), room ? answer_fd.get() : -1); });
    std::atomic<bool> over = false;
    std::thread daemon([&] {
      while (room && !over) admit(status_fd.get(), answer_fd.get());
    });
    std::thread beside([&] {
      if (meanwhile) meanwhile(over, status_fd.get());
    });
    const int code = end_of(worker);
    over = true;
    daemon.join();
    beside.join();
    auto read = nodestage::read_worker_status(status_fd.get());
    if (read) status = std::move(*read);
    return code;
  }

  void prepare(const std::string& command) const { REQUIRE(in_data(command) == 0); }
  [[nodiscard]] int in_data(const std::string& command) const { return shell(data_, command); }
  [[nodiscard]] const std::string& job() const { return job_; }
  [[nodiscard]] const std::string& data() const { return data_; }
  [[nodiscard]] std::string note(std::size_t i = 0) const {
    return nodestage::field_text(status.items.at(i).note);
  }
  [[nodiscard]] std::string what(std::size_t i = 0) const {
    return nodestage::field_text(status.items.at(i).what);
  }
  [[nodiscard]] nodestage::ItemState state(std::size_t i = 0) const {
    return static_cast<nodestage::ItemState>(status.items.at(i).state);
  }
  [[nodiscard]] bool has_cause(const std::string& part) const {
    const bool has_it = status.cause.find(part) != std::string::npos;
    if (!has_it) MESSAGE("the cause is: " << status.cause);
    return has_it;
  }
  // What is in the job directory, sorted, a line each; as that user, for unreadable directories.
  [[nodiscard]] bool in_job(const std::string& test) const { return shell(job_, test) == 0; }

  nodestage::WorkerStatus status;
  std::uint64_t rate = 0;
  // What a daemon has to admit; nothing: there is no daemon.
  std::optional<nodestage::Amount> room;
  std::atomic<std::uint64_t> freed = 0;       // of what the worker says it has written
  std::vector<nodestage::SpaceClaim> claims;  // that it has answered
  // With order.has_board: the worker's.
  int board_fd = -1;
  int spool_fd = -1;
  // What runs beside the worker, until `over` is set; with the worker's status file.
  std::function<void(const std::atomic<bool>& over, int status_fd)> meanwhile;

 private:
  void admit(int status_fd, int answer_fd) {
    using namespace nodestage;
    const auto claim = read_space_claim(status_fd);
    if (!claim || claim->serial == (claims.empty() ? 0 : claims.back().serial)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    Disk disk{.free = *room + nodestage::Amount{freed, 0} - claim->written};
    const Amount admitted = claims.empty() ? Amount{} : admitted_;
    const SpaceAnswer answer = decide(*claim, admitted, disk);
    admitted_ = answer.admitted;
    claims.push_back(*claim);
    if (!write_space_answer(answer_fd, answer)) std::abort();
  }

  int child(int status_fd, int answer_fd) const {
    using namespace nodestage;
    std::setlocale(LC_ALL, "C.UTF-8");
    const int rate_fd = ::memfd_create("rate", 0);
    if (::pwrite(rate_fd, &rate, sizeof rate, 0) != sizeof rate) return 123;
    std::vector<std::pair<int, int>> places = {
        {status_fd, k_worker_status_fd},
        {::open(job_.c_str(), O_RDONLY | O_DIRECTORY), k_worker_directory_fd},
        {rate_fd, k_worker_rate_fd},
        {answer_fd >= 0 ? answer_fd : ::open("/dev/null", O_RDONLY), k_worker_answer_fd}};
    const std::string& memory = order.memory.directory;
    if (!memory.empty())
      places.emplace_back(::open(memory.c_str(), O_RDONLY | O_DIRECTORY), k_worker_memory_fd);
    if (order.has_board) {
      places.emplace_back(board_fd, k_worker_board_fd);
      places.emplace_back(spool_fd, k_worker_spool_fd);
    }
    // Above the worker's numbers first, so that none of them is overwritten.
    for (auto& [fd, number] : places) fd = ::fcntl(fd, F_DUPFD, 50);
    for (const auto& [fd, number] : places) ::dup2(fd, number);
    if (std::getenv("STAGE_LOG") == nullptr) ::dup2(::open("/dev/null", O_WRONLY), 2);
    if (task == WorkerTask::compare) return run_compare();
    if (task == WorkerTask::identify) return run_identify(order, request);
    auto builder = start_builder(order, request);
    return builder ? run_stage(order, request, *builder ? &**builder : nullptr) : 124;
  }

  nodestage::Amount admitted_;
  Scratch scratch_;
  std::string job_;
  std::string data_;
};
