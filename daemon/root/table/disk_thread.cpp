#include "daemon/root/table/disk_thread.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::ptrdiff_t k_files_at_once =
    64;  // each is a descriptor, and one sync of the directory
constexpr std::string_view k_suffix = ".new";

struct Unfinished {
  std::string name;
  std::uint64_t number = 0;
};

// Parses the name of a temporary file. Those of earlier releases have no number.
std::optional<Unfinished> parse_temporary(std::string_view text) {
  if (!text.starts_with('.') || !text.ends_with(k_suffix)) return {};
  text.remove_prefix(1);
  text.remove_suffix(k_suffix.size());
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string_view digits = text.substr(dot + 1);
  const auto number = take_number<std::uint64_t>(digits);
  if (!number || !digits.empty()) return {};
  return Unfinished{std::string(text.substr(0, dot)), *number};
}

}  // namespace

Status DiskThread::start() {
  event_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return system_error("eventfd");
  TRY(loop_.watch(event_.get(), [this] { look(); }));
  // Signals are the loop's.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "disk");
  return {};
}

DiskThread::~DiskThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  more_.notify_one();
  thread_.join();
  loop_.forget(event_.get());
}

Status DiskThread::replace(int dir_fd, const std::string& name, std::string_view data,
                           OnFault on_fault) {
  std::string temporary = "." + name + "." + std::to_string(++number_) + std::string(k_suffix);
  TRY(write_file(dir_fd, temporary, data, 0600));
  add({{dir_fd, name}, std::move(temporary), std::move(on_fault), {}});
  return {};
}

void DiskThread::remove(int dir_fd, const std::string& name) { add({{dir_fd, name}, "", {}, {}}); }

void DiskThread::add(Change change) {
  std::string older;
  {
    const std::lock_guard lock(mutex_);
    const auto known = newest_.find(change.file);
    if (known != newest_.end()) older = changes_.extract(known->second).mapped().temporary;
    newest_[change.file] = ++asked_;
    const int dir_fd = change.file.first;
    changes_.emplace(asked_, std::move(change));
    if (!older.empty()) ::unlinkat(dir_fd, older.c_str(), 0);
  }
  more_.notify_one();
}

void DiskThread::then(Loop::Callback done) {
  if (thens_.empty() && seen_ == asked_) return done();
  thens_.emplace_back(asked_, std::move(done));
}

void DiskThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return !changes_.empty() || is_ending_; });
    if (changes_.empty()) return;
    std::vector<Change> changes;
    for (auto& [number, change] : std::exchange(changes_, {})) changes.push_back(std::move(change));
    newest_.clear();
    const std::uint64_t last = asked_;
    lock.unlock();
    work(changes);
    lock.lock();
    done_ = last;
    for (Change& change : changes) {
      if (!change.status && change.on_fault)
        faults_.push_back({std::move(change.on_fault), change.status.error()});
    }
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));
  }
}

void DiskThread::work(std::vector<Change>& changes) {
  for (auto from = changes.begin(); from != changes.end();) {
    const auto to = from + std::min(k_files_at_once, changes.end() - from);
    sync_some(from, to);
    from = to;
  }
}

void DiskThread::sync_some(std::vector<Change>::iterator from, std::vector<Change>::iterator to) {
  std::vector<Fd> files;
  for (auto change = from; change != to; ++change) {
    files.emplace_back();
    if (change->temporary.empty()) continue;
    auto file = open_at(change->file.first, change->temporary, O_RDONLY | O_NOFOLLOW);
    if (!file) {
      change->status = file.error();
      continue;
    }
    // All of them are on their way before the first is waited for.
    ::sync_file_range(file->get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    files.back() = std::move(*file);
  }
  std::set<int> directories;
  for (auto change = from; change != to; ++change) {
    const Fd& file = files[static_cast<std::size_t>(change - from)];
    if (file && ::fsync(file.get()) != 0) change->status = system_error(change->temporary);
    if (change->status) put_in_place(*change);
    if (!change->temporary.empty() && change->status) directories.insert(change->file.first);
    if (!change->status) left_[change->file].push_back(change->temporary);
  }
  for (const int directory : directories) {
    if (::fsync(directory) == 0) continue;
    const Error fault = system_error("the directory");
    for (auto change = from; change != to; ++change) {
      if (change->file.first == directory && change->status) change->status = fault;
    }
  }
}

void DiskThread::put_in_place(Change& change) {
  const auto& [directory, name] = change.file;
  if (change.temporary.empty())
    ::unlinkat(directory, name.c_str(), 0);
  else if (::renameat(directory, change.temporary.c_str(), directory, name.c_str()) != 0)
    change.status = system_error(name);
  if (!change.status) return;
  const auto left = left_.extract(change.file);
  if (left.empty()) return;
  for (const std::string& temporary : left.mapped()) ::unlinkat(directory, temporary.c_str(), 0);
}

void DiskThread::look() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_.get(), &count, sizeof count));
  std::vector<Fault> faults;
  {
    const std::lock_guard lock(mutex_);
    faults = std::exchange(faults_, {});
    seen_ = done_;
  }
  for (const Fault& fault : faults) fault.report(fault.error);
  while (!thens_.empty() && thens_.front().first <= seen_) {
    const Loop::Callback next = std::move(thens_.front().second);
    thens_.pop_front();
    next();
  }
}

void take_unfinished(int dir_fd, std::size_t max_bytes, const IsWhole& is_whole) {
  std::map<std::string, std::map<std::uint64_t, std::string>> unfinished;
  auto names = DirectoryStream::at(dir_fd);
  while (const auto next = names.next()) {
    if (auto known = parse_temporary(*next))
      unfinished[std::move(known->name)][known->number] = std::string(*next);
  }
  bool is_changed = false;
  for (const auto& [name, versions] : unfinished) {
    bool is_taken = false;
    for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
      const std::string& temporary = version->second;
      const auto content = read_file(dir_fd, temporary, max_bytes);
      const auto file = open_at(dir_fd, temporary, O_RDONLY | O_NOFOLLOW);
      if (!is_taken && content && file && is_whole(name, *content) && ::fsync(file->get()) == 0)
        is_taken = ::renameat(dir_fd, temporary.c_str(), dir_fd, name.c_str()) == 0;
      ::unlinkat(dir_fd, temporary.c_str(), 0);
    }
    is_changed = is_changed || is_taken;
  }
  if (is_changed) ::fsync(dir_fd);
}

}  // namespace nodestage
