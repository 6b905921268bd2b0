#include "daemon/root/basis/user_locks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <optional>
#include <string_view>

#include "common/os/file.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds k_look{100};
// Looks in a row that find the child asleep in the kernel. What it waits for first needs no disk.
constexpr int k_looks_for_lock = 2;
// What the call itself may take, on a slow disk, before it is thought to wait for a lock.
constexpr std::chrono::seconds k_call_time{3};
constexpr std::chrono::seconds k_abort_time{2};
// A child that is not asleep lacks a processor.
constexpr std::chrono::seconds k_longest{20};
constexpr std::size_t k_most_text = 4096;

// Takes the lock and gives it back: there are no attributes of that kind, which is looked at under
// the lock. Nobody sees that.
void wait_for_lock(int fd) {
  char path[32];
  ::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ::removexattr(path, "nodestage.lock");
}

int run_in_child(const UserLocks::Call& call, const std::vector<int>& kept, int begun) {
  ::prctl(PR_SET_NAME, "nodestaged-lock");
  close_all_but(kept);
  for (const int fd : call.locked) wait_for_lock(fd);
  const char byte = 0;
  if (::write(begun, &byte, 1) != 1) return EIO;
  return call.run();
}

// proc(5): "PID (NAME) STATE …", and the name can have anything in it.
bool is_asleep_in_kernel(int pid) {
  const auto text = read_file(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", k_most_text);
  const std::size_t end = text ? text->rfind(')') : std::string::npos;
  return end != std::string::npos && text->substr(end, 3) == ") D";
}

bool is_readable(int fd, std::chrono::milliseconds wait) {
  pollfd waited{fd, POLLIN, 0};
  return ::poll(&waited, 1, static_cast<int>(wait.count())) > 0;
}

// One child, until it exits or is given up.
class Watched {
 public:
  Watched(int pid, int pid_fd, int begun) : pid_(pid), pid_fd_(pid_fd), begun_(begun) {}

  // Returns whether it exits before it is found waiting for a lock, or the time is over.
  bool exits_in(std::chrono::milliseconds time) {
    const Clock::time_point until = Clock::now() + time;
    int asleep = 0;
    while (!is_readable(pid_fd_, k_look)) {
      asleep = is_asleep_in_kernel(pid_) ? asleep + 1 : 0;
      if (!has_begun() && asleep >= k_looks_for_lock) return false;
      if (Clock::now() >= until && (asleep > 0 || Clock::now() >= until + k_longest)) return false;
    }
    return true;
  }
  // Whether it has had the locks and makes the call.
  bool has_begun() { return is_readable(begun_, {}); }

 private:
  int pid_;
  int pid_fd_;
  int begun_;
};

// Whether the child has exited. What holds a lock since the child has had it waits for FUSE.
bool wait_for(Watched& watched, const UserLocks::Call& call) {
  if (watched.exits_in(k_call_time)) return true;
  if (!watched.has_begun()) return false;
  const int aborted = abort_waiting_fuse(call.uid);
  log::error(Subject{{}, call.uid, "daemon", call.path},
             "{}: cannot be moved or removed for {} s; {} of its user's FUSE mounts that did not "
             "answer were aborted",
             call.path, k_call_time.count(), aborted);
  return watched.exits_in(k_abort_time);
}

Status result_of(const std::string& path, std::optional<int> wait_status) {
  if (!wait_status || !WIFEXITED(*wait_status))
    return Error{EINTR, path + ": the process that moves it was killed"};
  errno = WEXITSTATUS(*wait_status);
  return errno == 0 ? Status() : Status(system_error(path));
}

Error busy(const std::string& path) {
  return Error{EBUSY, path + ": a process of the user's holds its lock"};
}

}  // namespace

Status UserLocks::is_free(const Call& call) {
  for (auto left = left_.begin(); left != left_.end();)
    left = left->second.child.reap() ? left_.erase(left) : std::next(left);
  if (left_.contains(call.path)) return busy(call.path);
  const auto rename = std::find_if(left_.begin(), left_.end(),
                                   [](const auto& item) { return item.second.is_rename; });
  if (call.kind != Kind::rename || rename == left_.end()) return {};
  return Error{EBUSY, call.path + ": the move of " + rename->first +
                          " does not end, so no other in its file system can be made"};
}

Status UserLocks::make(const Call& call) {
  TRY(is_free(call));
  TRY_ASSIGN(const Pipe begun, make_pipe());
  std::vector<int> kept = call.locked;
  kept.insert(kept.end(), call.used.begin(), call.used.end());
  kept.push_back(begun.write.get());
  std::sort(kept.begin(), kept.end());
  const auto life = [&] { return run_in_child(call, kept, begun.write.get()); };
  TRY_ASSIGN(ChildProcess child, ChildProcess::start(Orphan::left, life));
  const auto pid_fd = open_pid(child.pid());
  if (!pid_fd) return result_of(call.path, child.wait());
  Watched watched(child.pid(), pid_fd->get(), begun.read.get());
  if (wait_for(watched, call)) return result_of(call.path, child.reap());
  // Once it has the lock, it does not make the call, of which nobody knows any more.
  const bool has_begun = watched.has_begun();
  if (!has_begun) child.signal(SIGKILL);
  left_.emplace(call.path, Left{std::move(child), has_begun && call.kind == Kind::rename});
  return busy(call.path);
}

int abort_waiting_fuse(std::uint32_t uid, const std::string& connections) {
  int aborted = 0;
  auto names = DirectoryStream::at(AT_FDCWD, connections);
  while (const auto name = names.next()) {
    const std::string connection = (connections + "/").append(*name);
    struct stat info {};
    if (::stat((connection + "/abort").c_str(), &info) != 0 || info.st_uid != uid) continue;
    const auto waiting = read_file(AT_FDCWD, connection + "/waiting", k_most_text);
    if (!waiting || waiting->starts_with("0")) continue;
    const auto abort = open_at(AT_FDCWD, connection + "/abort", O_WRONLY);
    if (abort && write_all(abort->get(), std::string_view("1"))) ++aborted;
  }
  return aborted;
}

}  // namespace nodestage
