#include <fcntl.h>

#include <utility>

#include "common/os/file.hpp"
#include "daemon/worker/deliver/copy_out.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {
namespace {

// Files from this size on are synced at once, smaller ones while the next ones are written.
constexpr off_t k_sync_bytes = off_t{4} << 20;

// A log, or another file that is only appended to.
bool has_only_grown(int from, int copy, const struct stat& before) {
  struct stat now {};
  if (::fstat(from, &now) != 0 || now.st_size <= before.st_size) return false;
  const auto is_same = have_same_bytes(from, copy, static_cast<std::uint64_t>(before.st_size));
  return is_same && *is_same;
}

// Whether what the target has of that name, if anything, is how the file begins.
bool goes_on(int from, const struct stat& info, int target_fd, const std::string& name) {
  const auto there = open_at(target_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!there) return there.error().code == ENOENT;
  struct stat of_target {};
  if (::fstat(there->get(), &of_target) != 0 || !S_ISREG(of_target.st_mode) ||
      of_target.st_size > info.st_size)
    return false;
  const auto is_same =
      have_same_bytes(from, there->get(), static_cast<std::uint64_t>(of_target.st_size));
  return is_same && *is_same;
}

bool looks_alike(const struct stat& there, const struct stat& copy) {
  return (there.st_mode & S_IFMT) == (copy.st_mode & S_IFMT) && there.st_size == copy.st_size &&
         is_copied_time(there.st_mtim, copy.st_mtim);
}

// What was changed in the target while these results were held.
Error newer_there() {
  return {EEXIST,
          "something newer has that name in the target, changed after these results were held, and "
          "stays: remove it there, or use `nodestage recover`, which replaces nothing"};
}

}  // namespace

Status give_name(const PendingName& pending, int into_fd, const std::string& name,
                 const struct stat& copy, const CopyScope& scope) {
  if (scope.replaces_only == nullptr && scope.held_since == 0) return pending.commit(name);
  struct stat there {};
  const auto look = [&] { return ::fstatat(into_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW); };
  Status named = pending.commit_new(name);
  if (!named && named.error().code == EEXIST && look() == 0) {
    const bool is_recovery = scope.replaces_only != nullptr;
    const bool may_replace =
        scope.may_replace(there, copy.st_mtim.tv_sec) || (!is_recovery && looks_alike(there, copy));
    if (is_recovery || !may_replace) {
      const auto is_same =
          have_same_content({into_fd, pending.c_str(), O_NOFOLLOW}, {into_fd, name, O_NOFOLLOW});
      if (is_same && *is_same) return {};
      if (!is_recovery) return newer_there();
      if (!is_same) return is_same.error();
      if (!may_replace) return Error{EEXIST, "something else has that name in the target"};
    }
    named = pending.commit(name);
  }
  if (named && scope.replaces_only != nullptr && look() == 0)
    scope.replaces_only->insert(HardLinks::id(there));
  return named;
}

// Gives a complete copy, which looks as `copy`, its name.
Status DeliverLeaf::commit(const PendingName& pending, int into_fd, const std::string& path,
                           const struct stat& copy) const {
  const std::string name(split_path(path).name);
  TRY(give_name(pending, into_fd, name, copy, scope_));
  if (!scope_.is_early()) return {};
  scope_.list->add_place(scope_.item, into_fd, name);
  if (scope_.pruning == nullptr) return {};
  scope_.list->add_copy(scope_.item, path, copy);
  scope_.see(path);
  return {};
}

// Returns whether nothing is left to do for a file or link at the end of the job. Others may have
// put theirs under its name since it was delivered.
bool DeliverLeaf::is_delivered(const OutEntry& entry, int target_fd) const {
  const auto& [source, path, info] = entry;
  if (scope_.what != CopyWhat::missing || !scope_.is_noted(path, info)) return false;
  const std::string name = entry.name();
  struct stat there {};
  if (::fstatat(target_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 ||
      (there.st_mode & S_IFMT) != (info.st_mode & S_IFMT) || there.st_size != info.st_size)
    return false;
  if (S_ISREG(info.st_mode)) return is_copied_time(there.st_mtim, info.st_mtim);
  const auto text = read_link(source);
  const auto text_there = read_link({target_fd, name, O_NOFOLLOW});
  return text && text_there && *text == *text_there;
}

Status DeliverLeaf::copy(const OutEntry& entry, CopyInto into) {
  const auto& [source, path, info] = entry;
  if (is_delivered(entry, into.fd)) {
    report_.add_unchanged(info);
    return {};
  }
  const auto copied = make(entry, into);
  if (!copied || *copied != Copied::whole) links_.forget(info);
  if (!copied) return copied.error();
  if (*copied == Copied::whole || *copied == Copied::so_far) {
    into.is_changed = true;
    report_.add_copied(info);
  } else if (*copied == Copied::unsettled) {
    if (info.st_nlink > 1) unsettled_.insert(HardLinks::id(info));
    report_.add_unsettled(path);
    if (scope_.pruning != nullptr) scope_.pruning->wait_for(source, scope_.rules());
  } else {
    return scope_.leave_all();
  }
  return {};
}

Result<DeliverLeaf::Copied> DeliverLeaf::make(const OutEntry& entry, CopyInto into) {
  const auto& [source, path, info] = entry;
  if (S_ISLNK(info.st_mode)) return link(entry, into);
  // All names of a file come at once, or they would become several files.
  if (!unsettled_.empty() && unsettled_.count(HardLinks::id(info)) > 0) return Copied::unsettled;
  const auto first = links_.first(info, path);
  // Early, the file may have changed since its first name was copied.
  const bool is_same = first && (!scope_.is_early() || scope_.is_noted(first->name, info));
  if (!is_same || !hard_link(*first, into, path)) return file(entry, into);
  if (scope_.is_early()) scope_.list->add(scope_.item, path, info);
  return Copied::whole;
}

Result<DeliverLeaf::Copied> DeliverLeaf::file(const OutEntry& entry, CopyInto into) {
  const auto& [source, path, info] = entry;
  struct stat there {};
  if (::fstatat(into.fd, entry.name().c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(there.st_mode))
      return Error{EISDIR, "is a file here and a directory in the target"};
    if (scope_.is_newer(there, info.st_mtim.tv_sec) && there.st_size != info.st_size)
      return newer_there();
  }
  const auto from = open_for_reading(source, info);
  const bool is_gone = !from && (from.error().code == ENOENT || from.error().code == ELOOP);
  if (is_gone && scope_.is_early()) return Copied::vanished;
  if (!from) return source_fault(from.error(), info);
  if (!scope_.is_early()) {
    TRY(final_file(from->get(), into, path));
    return Copied::whole;
  }
  const auto settled = SettledFile::look(from->get(), scope_.rules());
  if (!settled) return log_so_far(from->get(), into, path);
  const auto written =
      write_file(from->get(), into, path, settled->info(), &*settled, Growing::refused);
  if (!written && written.error().code == k_was_changed) return Copied::unsettled;
  if (!written) return written.error();
  scope_.list->add(scope_.item, path, settled->info());
  return Copied::whole;
}

// A log is written as long as the job runs: its user wants what there is. The list does not get it,
// so it comes again. One in the target that is not its beginning is another file, or was whole.
Result<DeliverLeaf::Copied> DeliverLeaf::log_so_far(int from, CopyInto into,
                                                    const std::string& path) {
  const std::string name(split_path(path).name);
  struct stat info {};
  if (!is_log(from, scope_.rules()) || ::fstat(from, &info) != 0 || info.st_nlink != 1 ||
      !goes_on(from, info, into.fd, name))
    return Copied::unsettled;
  const auto written = write_file(from, into, path, info, nullptr, Growing::kept);
  if (!written && written.error().code == k_was_changed) return Copied::unsettled;
  if (!written) return written.error();
  report_.add_growing(path);
  return Copied::so_far;
}

// There is no later delivery to which one that is still being written could be left.
Status DeliverLeaf::final_file(int from, CopyInto into, const std::string& path) {
  const SettleRules& rules = scope_.rules();
  for (unsigned reads = 1;; ++reads) {
    struct stat info {};
    if (::fstat(from, &info) != 0) return system_error("cannot read");
    const bool is_last = reads >= rules.reads;
    const auto written =
        write_file(from, into, path, info, nullptr, is_last ? Growing::kept : Growing::refused);
    if (written && *written) report_.add_growing(path);
    if (written) return {};
    if (is_last || written.error().code != k_was_changed) return written.error();
    rules.wait(rules.between);
  }
}

// `settled`: only if it held still before, too, and on stable storage before it has its name.
Result<bool> DeliverLeaf::write_file(int from, CopyInto into, const std::string& path,
                                     const struct stat& info, const SettledFile* settled,
                                     Growing growing) {
  const PendingName pending(into.fd, names_);
  TRY_ASSIGN(Fd to, pending.create_file(0600));
  const auto on_bytes = [&](std::uint64_t bytes) {
    report_.add_bytes(bytes);
    return settled == nullptr || settled->is_same() ? Status() : Status(was_changed());
  };
  TRY(copy_data(from, to.get(), static_cast<std::uint64_t>(info.st_size), on_bytes));
  const bool is_whole =
      settled != nullptr ? settled->was_whole() : has_held_still(from, info, scope_.rules());
  const bool has_grown =
      !is_whole && growing == Growing::kept && has_only_grown(from, to.get(), info);
  if (!is_whole && !has_grown) return was_changed();
  TRY(attributes_.keep("mode", ::fchmod(to.get(), info.st_mode & 0777) == 0 ? 0 : errno));
  TRY(attributes_.keep("time", ::futimens(to.get(), times_of(info).data()) == 0 ? 0 : errno));
  const bool is_synced_first = scope_.is_early() || info.st_size >= k_sync_bytes;
  if (is_synced_first && ::fsync(to.get()) != 0 && !is_sync_refusal(errno))
    return system_error("cannot write");
  struct stat copy {};
  if (::fstat(to.get(), &copy) != 0) return system_error("cannot look at what was written");
  links_.copied(info, copy);
  Fd written;
  if (!is_synced_first) written = Fd(::fcntl(to.get(), F_DUPFD_CLOEXEC, 0));
  TRY(close_checked(std::move(to)));
  TRY(commit(pending, into.fd, path, copy));
  if (written) syncs_.add(std::move(written));
  return has_grown;
}

Result<DeliverLeaf::Copied> DeliverLeaf::link(const OutEntry& entry, CopyInto into) const {
  const auto& [source, path, info] = entry;
  const auto text = read_link(source);
  const bool is_gone = !text && (text.error().code == ENOENT || text.error().code == EINVAL);
  if (is_gone && scope_.is_early()) return Copied::vanished;
  if (!text) return text.error();
  TRY(make_link(*text, into, path, info));
  // One that was changed within the tick may be another one by now that looks the same.
  if (scope_.is_early() && age_of(info.st_ctim) >= scope_.rules().tick)
    scope_.list->add(scope_.item, path, info);
  return Copied::whole;
}

Status DeliverLeaf::make_link(const std::string& text, CopyInto into, const std::string& path,
                              const struct stat& info) const {
  const PendingName pending(into.fd, names_);
  if (::symlinkat(text.c_str(), into.fd, pending.c_str()) != 0) {
    return system_error("cannot make a link in the target");
  }
  // Some file systems keep no times of links.
  static_cast<void>(
      ::utimensat(into.fd, pending.c_str(), times_of(info).data(), AT_SYMLINK_NOFOLLOW));
  struct stat made {};
  if (::fstatat(into.fd, pending.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0)
    return system_error("cannot look at the new link");
  return commit(pending, into.fd, path, made);
}

Status DeliverLeaf::put_link(const std::string& text, CopyInto into, const std::string& path,
                             const struct stat& info) {
  const std::string name(split_path(path).name);
  const auto there = read_link({into.fd, name, O_NOFOLLOW});
  if (scope_.list != nullptr && there && *there == text) {
    scope_.list->add_place(scope_.item, into.fd, name);
    report_.add_unchanged(info);
    return {};
  }
  TRY(make_link(text, into, path, info));
  into.is_changed = true;
  report_.add_copied(info);
  return {};
}

// Opens no link on the path, and links only to the file that was written there.
Status DeliverLeaf::hard_link(const HardLinks::First& first, CopyInto into,
                              const std::string& path) const {
  const SplitPath split = split_path(first.name);
  TRY_ASSIGN(const Fd parent, open_directory_below(target_, split.parent));
  const PendingName pending(into.fd, names_);
  struct stat made {};
  if (::linkat(parent.get(), std::string(split.name).c_str(), into.fd, pending.c_str(), 0) != 0 ||
      ::fstatat(into.fd, pending.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) {
    return system_error("link");
  }
  if (HardLinks::id(made) != first.copy) return Error{ESTALE, "another file is there now"};
  return commit(pending, into.fd, path, made);
}

}  // namespace nodestage
