#include "daemon/worker/tree/pending_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <utility>

#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

std::uint32_t random_number() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) == sizeof number) return number;
  timespec now{};  // O_EXCL protects; this only has to differ
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint32_t>(now.tv_nsec) ^ static_cast<std::uint32_t>(::getpid()) << 16;
}

// FNV-1a.
std::uint32_t short_hash(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

constexpr unsigned k_threads = 16;
constexpr std::size_t k_most_waiting = 64;

constexpr std::size_t k_max_bytes = std::size_t{64} * 1024 * 1024;

Result<std::string> text_of(int job_fd, const std::string& path) {
  TRY_ASSIGN(const Fd file,
             open_beneath(job_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Error{EINVAL, path};
  return read_all(file.get(), k_max_bytes);
}

}  // namespace

PendingNames pending_names(const OrderHead& order) {
  const std::string place = order.node + "/" + std::to_string(order.restart);
  char prefix[64];
  std::snprintf(prefix, sizeof prefix, ".nodestage-%u-%08x", order.job, short_hash(place));
  return {prefix, false, {}};
}

PendingNames pending_names(const DeliveryOrder& order) {
  PendingNames names = pending_names(static_cast<const OrderHead&>(order));
  names.may_be_left = order.tries > 0;
  return names;
}

void remove_leftovers(int dir_fd, const PendingNames& names) {
  if (!names.may_be_left) return;
  auto directory = DirectoryStream::at(dir_fd);
  while (const auto name = directory.next()) {
    if (name->starts_with(names.prefix) && name->ends_with(".tmp"))
      ::unlinkat(dir_fd, std::string(*name).c_str(), 0);
  }
}

PendingName::PendingName(int dir_fd, const PendingNames& names) : dir_fd_(dir_fd) {
  char tail[16];
  std::snprintf(tail, sizeof tail, "%08x.tmp", random_number());
  temporary_ = names.prefix + tail;
  if (!names.before) return;
  if (const std::string directory = path_of(dir_fd); !directory.empty())
    names.before(directory + "/" + temporary_);
}

// After a commit the name does not exist, with one exception: rename() of a link onto another link
// of the same file does nothing and leaves both.
PendingName::~PendingName() { ::unlinkat(dir_fd_, temporary_.c_str(), 0); }

Result<Fd> PendingName::create_file(unsigned mode) const {
  auto fd = open_at(dir_fd_, temporary_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!fd) return system_error("cannot make a file in the target", fd.error().code);
  return fd;
}

Status PendingName::commit(const std::string& name) const {
  if (::renameat(dir_fd_, temporary_.c_str(), dir_fd_, name.c_str()) == 0) return {};
  if (errno == EISDIR) return Error{EISDIR, "the target is a directory of that name"};
  return system_error("cannot rename to its final name");
}

Status PendingName::commit_new(const std::string& name) const {
  constexpr unsigned k_new = RENAME_NOREPLACE;
  if (::renameat2(dir_fd_, temporary_.c_str(), dir_fd_, name.c_str(), k_new) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return system_error("cannot rename to its final name");
  // A file system that does not support that (NFS): the next best.
  if (::faccessat(dir_fd_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    return system_error("cannot rename to its final name", EEXIST);
  return commit(name);
}

Status close_checked(Fd file) {
  if (::close(file.release()) != 0 && errno != EINTR) return system_error("cannot write");
  return {};
}

bool is_sync_refusal(int code) { return code == EINVAL || code == ENOTSUP || code == EROFS; }

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
  if (fault_ == 0 && !is_sync_refusal(code)) fault_ = code;
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

PlacedNames parse_placed_names(std::string_view text) {
  PlacedNames names;
  for (std::size_t end = text.find('\0'); end != std::string_view::npos; end = text.find('\0')) {
    names.emplace(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return names;
}

std::optional<PlacedNames> read_placed_names(int job_fd) {
  for (const std::string& path :
       {std::string(k_placed_afterwards), std::string(k_partial_directory) + "/" + k_placed_file}) {
    if (const auto text = text_of(job_fd, path)) return parse_placed_names(*text);
  }
  return {};
}

}  // namespace nodestage
