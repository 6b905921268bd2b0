#include "daemon/worker/tree/sync_crew.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr unsigned k_threads = 16;
constexpr std::size_t k_most_waiting = 64;

// The errno of a file system that cannot sync.
bool is_refusal(int code) { return code == EINVAL || code == ENOTSUP || code == EROFS; }

}  // namespace

SyncCrew::~SyncCrew() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    is_over_ = true;
  }
  changed_.notify_all();
}

void SyncCrew::note(int code) {
  const std::lock_guard lock(mutex_);
  if (fault_ == 0 && !is_refusal(code)) fault_ = code;
}

void SyncCrew::add(Fd written) {
  if (!std::exchange(is_started_, true)) {
    if (!threads_.start(k_threads, [this] { work(); })) {
      if (::fsync(written.get()) != 0) note(errno);
      is_started_ = false;
      return;
    }
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < k_most_waiting; });
  waiting_.push_back(std::move(written));
  changed_.notify_all();
}

void SyncCrew::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Fd written = std::move(waiting_.front());
    waiting_.pop_front();
    ++at_work_;
    lock.unlock();
    if (::fsync(written.get()) != 0) note(errno);
    lock.lock();
    --at_work_;
    changed_.notify_all();
  }
}

Status SyncCrew::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && at_work_ == 0; });
  if (fault_ == 0) return {};
  return system_error("the target's file system did not store all that was written", fault_);
}

Status SyncCrew::add_directory(int directory_fd, const PendingNames& names) {
  Fd readable(::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (readable) {
    add(std::move(readable));
    return {};
  }
  if (errno != EACCES) return system_error("cannot open the target's directory");
  const PendingName pending(directory_fd, names);
  TRY_ASSIGN(const Fd file, pending.create_file(0600));
  if (::syncfs(file.get()) != 0) note(errno);
  return {};
}

}  // namespace nodestage
