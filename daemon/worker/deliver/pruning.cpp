#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

// Asks the server of a network file system: another node may have replaced the entry just now.
bool look_afresh(int directory, const std::string& name, struct stat& info) {
  struct statx now {};
  constexpr int k_flags = AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC;
  if (::statx(directory, name.c_str(), k_flags, STATX_BASIC_STATS, &now) != 0) return false;
  info.st_dev = makedev(now.stx_dev_major, now.stx_dev_minor);
  info.st_ino = now.stx_ino;
  info.st_size = static_cast<off_t>(now.stx_size);
  info.st_mtim = {now.stx_mtime.tv_sec, now.stx_mtime.tv_nsec};
  return true;
}

}  // namespace

void Pruning::begin() {
  may_remove_ = true;
  target_.reset();
  seen_.clear();
}

void Pruning::wait_for(const SourceEntry& file, const SettleRules& rules) {
  constexpr int k_logs = 60;  // so many times the age of a log
  struct statx info {};
  const bool is_known =
      ::statx(file.dir_fd, file.path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &info) == 0 &&
      (info.stx_mask & STATX_BTIME) != 0;
  const bool is_old =
      is_known && age_of({info.stx_btime.tv_sec, info.stx_btime.tv_nsec}) >= k_logs * rules.log;
  if (!is_old) give_up();
}

std::uint64_t Pruning::run(const Sizes& kept) {
  if (may_remove_ && target_ && is_there_("")) {
    kept_ = kept;
    gone_ = list_.copies_but(item_, seen_);
    const std::size_t all = list_.copies_but(item_, {}).size();
    if (!gone_.empty() && gone_.size() < all) prune_in(target_.get(), "");
  }
  if (count_ > 0) list_.add_pruned(item_, std::exchange(count_, 0));
  return list_.pruned(item_);
}

// What lies deeper than a path can be stays.
void Pruning::prune_in(int directory, const std::string& prefix) {
  if (prefix.size() > PATH_MAX) return;
  std::vector<std::string> files;
  std::vector<std::string> directories;
  auto listing = DirectoryStream::at(directory);
  while (const auto name = listing.next()) {
    const std::string path = prefix + std::string(*name);
    if (gone_.contains(DeliveredList::copy_name(item_, path)))
      files.emplace_back(*name);
    else if (list_.has_directory(item_, path))
      directories.emplace_back(*name);
  }
  for (const std::string& name : files) prune_file(directory, name, prefix + name);
  for (const std::string& name : directories) prune_directory(directory, name, prefix + name);
}

// First the list: if this process is killed in between, the entry stays.
void Pruning::prune_file(int directory, const std::string& name, const std::string& path) {
  struct stat there {};
  if (is_there_(path) || list_.leave_place(item_, directory, name) ||
      !look_afresh(directory, name, there) || !list_.is_copy(item_, path, there) ||
      kept_.contains(there.st_size))
    return;
  list_.forget(item_, path);
  if (::unlinkat(directory, name.c_str(), 0) == 0) ++count_;
}

// A directory that the job has removed looks unfinished meanwhile, so that newest= of another job
// does not choose what is left of it. One that is not empty in the end looks as before.
void Pruning::prune_directory(int parent, const std::string& name, const std::string& path) {
  const auto directory = open_directory_at(parent, name);
  struct stat before {};
  if (!directory || ::fstat(directory->get(), &before) != 0) return;
  const auto made = list_.made_mode(item_, path);
  const bool is_ours = made && before.st_uid == ::geteuid();
  const bool is_gone = is_ours && !seen_.contains(DeliveredList::copy_name(item_, path));
  const std::uint32_t count = count_;
  if (is_gone)
    static_cast<void>(
        change_mode(directory->get(), k_unfinished_directory | (before.st_mode & S_ISGID)));
  prune_in(directory->get(), path + "/");
  if (is_gone && ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0)
    return list_.forget(item_, path);
  // A worker that was killed may have left it unfinished.
  const bool was_whole = (before.st_mode & 01777) != k_unfinished_directory;
  const mode_t mode = was_whole ? before.st_mode & 07777 : *made & 01777;
  if (is_gone) static_cast<void>(change_mode(directory->get(), mode | (before.st_mode & S_ISGID)));
  if (is_ours && count_ != count)
    ::utimensat(directory->get(), "", times_of(before).data(), AT_EMPTY_PATH);
}

}  // namespace nodestage
