#include "daemon/worker/deliver/copy_out.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {
namespace {

bool ends_item(int code) { return code == ENOSPC || code == EDQUOT; }

Status bare_error() { return Error{errno, std::strerror(errno)}; }

// What a finished directory with the permissions `mode` has while a later try fills it again.
mode_t refilled(mode_t mode) { return (mode & 0777) | 0700 | S_ISVTX; }

// As it was made, or as a finished one is marked that a later try fills again.
bool is_unfinished(const struct stat& there, const struct stat& source) {
  const mode_t mode = there.st_mode & 05777;
  const bool is_marked = mode == k_unfinished_directory || mode == refilled(source.st_mode);
  return is_marked && there.st_uid == ::geteuid();
}

// Returns whether it looks as a delivery has left it that gave it the permissions `mode`, or that
// was cut off while it filled it again, whatever permissions it had then.
bool is_as_made(const struct stat& there, mode_t mode) {
  const mode_t now = there.st_mode & 01777;
  return (now == (mode & 01777) || (now & 01700) == 01700) && there.st_uid == ::geteuid();
}

// Returns whether group and others have no more rights by `mode` than by `source`.
bool is_within(mode_t mode, mode_t source) { return (mode & 077 & ~source) == 0; }

// Returns whether the directory looks like a finished copy of `source`.
bool looks_like(const struct stat& there, const struct stat& source) {
  return there.st_uid == ::geteuid() && (there.st_mode & 01777) == (source.st_mode & 01777) &&
         there.st_mtim.tv_sec == source.st_mtim.tv_sec;
}

// Decides for entries other than directories.
bool is_kept(const struct stat& info) { return S_ISREG(info.st_mode) || S_ISLNK(info.st_mode); }

// Returns whether the directory is empty, as one is that was just created. One that another user
// put there since then keeps its mode.
bool is_empty(int directory) {
  auto listing = DirectoryStream::at(directory);
  return !listing.next() && listing.code() == 0;
}

// Returns why no directory can be made under a name that is taken. A link is not followed, even if
// it is the user's own: others who may write there could have moved it there.
std::string in_the_way(int target_fd, const std::string& name) {
  const auto text = read_link({target_fd, name, O_NOFOLLOW});
  if (!text) return "is a directory here and something else in the target";
  return "is a directory here, and a link in the target (to " + *text +
         "), which is not followed: make it a directory there, or name another target";
}

}  // namespace

// A directory below the target.
struct CopyOut::Level {
  std::string name;
  struct stat source;
  Made made = Made::before;
  bool is_new = false;      // made just now
  bool is_changed = false;  // a name was made in it
  bool is_lost = false;     // it cannot be opened, which was reported
};

// The state of a tree copy, on both sides. Early deliveries do not open the directories in which
// nothing is copied: `targets` has the first of `levels`, those that were opened.
struct CopyOut::Descent {
  DirStack targets;         // from the one in which it starts
  bool& is_changed;         // a name was made in that one
  std::string prefix = {};  // the path of that one, with a slash at the end
  std::vector<Level> levels = {};
  std::optional<TreeWalk> walk = {};

  [[nodiscard]] std::size_t opened() const { return targets.depth() - 1; }
  CopyInto into() {
    return {targets.top(), opened() == 0 ? is_changed : levels[opened() - 1].is_changed};
  }
  // The path of the first level that was not opened.
  [[nodiscard]] std::string next_path() const {
    std::string path = prefix + levels.front().name;
    for (std::size_t i = 1; i <= opened(); ++i) path += "/" + levels[i].name;
    return path;
  }
};

mode_t mode_while_filled(const struct stat& info) { return refilled(info.st_mode); }

CopyOut::CopyOut(Fd target, PendingNames names, OutputReport& report, CopyScope scope)
    : target_(std::move(target)),
      names_(std::move(names)),
      report_(report),
      scope_(std::move(scope)),
      attributes_(report),
      leaves_(target_.get(), names_, scope_, report_, attributes_, syncs_) {
  struct stat info {};
  if (::fstat(target_.get(), &info) == 0) target_id_ = HardLinks::id(info);
  remove_leftovers(target_.get(), names_);
}

Status CopyOut::contents(Fd directory, const struct stat& info, const std::string& origin) {
  left_out_ = {&scope_.leaves_out, origin};
  TRY_ASSIGN(Fd target, duplicate(target_.get()));
  Descent at{DirStack(std::move(target)), is_changed_};
  const bool is_ours = begin_target(info);
  const Status copied = tree(std::move(directory), at, "");
  const Status ended = is_ours ? end_target(info) : Status();
  return copied ? ended : copied;
}

// Returns whether this or an earlier try has created the target, and makes it writable.
bool CopyOut::begin_target(const struct stat& source) {
  struct stat there {};
  if (::fstat(target_.get(), &there) != 0 || there.st_uid != ::geteuid()) return false;
  const auto mode_before =
      scope_.list != nullptr ? scope_.list->made_mode(scope_.item, "") : std::nullopt;
  const bool is_unfinished =
      (there.st_mode & 01700) == 01700 && is_within(there.st_mode, source.st_mode);
  const bool is_as_ended = mode_before && is_within(there.st_mode, *mode_before) &&
                           (there.st_mode & 0700) == (*mode_before & 0700);
  if (!is_unfinished && !is_as_ended) return false;
  if ((there.st_mode & 0700) != 0700)
    static_cast<void>(change_mode(target_.get(), (there.st_mode & 02777) | 01700));
  return true;
}

// What the umask or a default ACL denied when it was created, stays denied.
Status CopyOut::end_target(const struct stat& source) {
  struct stat now {};
  if (::fstat(target_.get(), &now) != 0) return bare_error();
  if (scope_.is_early())
    scope_.list->add_directory(scope_.item, "", source, DirectoryOrigin::delivery);
  const mode_t mode =
      (now.st_mode & S_ISGID) | (source.st_mode & S_ISVTX) | (now.st_mode & source.st_mode & 0777);
  if (mode == (now.st_mode & 07777)) return {};
  is_changed_ = true;
  const Status changed = change_mode(target_.get(), mode);
  return attributes_.keep("mode", changed ? 0 : changed.error().code);
}

Status CopyOut::entry(const SourceEntry& source, const std::string& name,
                      const std::string& origin) {
  left_out_ = {&scope_.leaves_out, origin};
  struct stat info {};
  auto handle = open_beneath(source.dir_fd, source.path, O_PATH | source.follow);
  if (!handle && scope_.is_early() && handle.error().code == ENOENT) return scope_.leave_all();
  scope_.see(name);
  if (!handle || ::fstat(handle->get(), &info) != 0) {
    return check(source.path, system_error("cannot read", handle ? errno : handle.error().code));
  }
  if (S_ISDIR(info.st_mode)) {
    // Recovery names it in a place where a glob may just have delivered the link.
    if (scope_.replaces_only != nullptr) remove_own_link(target_.get(), name);
    return directory({source, name, info}, {target_.get(), is_changed_});
  }
  if (left_out_(name, info)) return {};
  TRY_ASSIGN(Fd target, duplicate(target_.get()));
  Descent at{DirStack(std::move(target)), is_changed_};
  return leaf_or_link(at, {source, name, info});
}

Status CopyOut::directory(const OutEntry& entry, CopyInto into) {
  const auto& [source, path, info] = entry;
  auto from = open_beneath(source.dir_fd, source.path, O_PATH | O_DIRECTORY | source.follow);
  if (!from && scope_.is_early() && from.error().code == ENOENT) return scope_.leave_all();
  if (!from) return check(path, source_fault(from.error(), info));
  TRY_ASSIGN(Fd target, duplicate(into.fd));
  const std::string name = entry.name();
  Descent at{DirStack(std::move(target)), into.is_changed,
             path.substr(0, path.size() - name.size())};
  at.levels.push_back({name, info});
  if (!may_stay_closed(path, info)) {
    TRY_ASSIGN(const bool is_reached, reach(at));
    if (!is_reached) return {};
  }
  TRY(tree(std::move(*from), at, path + "/"));
  return leave_directory(at, path, info);
}

// Opens the directory of `level` in target_fd; creates it if it does not exist.
Result<Fd> CopyOut::make_directory(int target_fd, Level& level, const std::string& path) const {
  level.is_new = ::mkdirat(target_fd, level.name.c_str(), k_unfinished_directory) == 0;
  if (!level.is_new && errno != EEXIST) return system_error("cannot make the directory");
  auto opened = open_directory_at(target_fd, level.name);
  if (!opened) {
    const int code = opened.error().code;
    if (code == ENOTDIR || code == ELOOP) return Error{code, in_the_way(target_fd, level.name)};
    return opened.error();
  }
  struct stat there {};
  if (::fstat(opened->get(), &there) != 0) return system_error("cannot look at the directory");
  const auto mode_before =
      scope_.list != nullptr ? scope_.list->made_mode(scope_.item, path) : std::nullopt;
  const bool is_ours = level.is_new ? is_empty(opened->get())
                                    : is_unfinished(there, level.source) ||
                                          looks_like(there, level.source) ||
                                          (mode_before && is_as_made(there, *mode_before));
  level.made = is_ours ? Made::here : Made::before;
  if (!is_ours) return opened;
  // A finished one stays open to its readers. It may have denied access to its owner.
  const mode_t mode = level.is_new ? k_unfinished_directory | (there.st_mode & S_ISGID)
                                   : (there.st_mode & 02000) | refilled(there.st_mode);
  if (mode != (there.st_mode & 07777)) static_cast<void>(change_mode(opened->get(), mode));
  return opened;
}

// Uses the descriptor that has been open since the directory was created (O_PATH): others who can
// write to the target may have put anything under its name meanwhile. The inherited set-group-id
// bit stays: it gives new files the project's group.
Status CopyOut::end_directory(int fd, const Level& level, const std::string& path,
                              const struct stat& info) {
  const bool needs_sync = !scope_.is_early() || level.is_changed || scope_.syncs_all;
  if (level.made == Made::before) {
    if (scope_.is_early()) {
      scope_.list->add_directory(scope_.item, path, info, DirectoryOrigin::others);
      scope_.see(path);
    }
    return needs_sync ? syncs_.add_directory(fd, names_) : Status();
  }
  // The mode may deny access to the directory's owner.
  Fd readable(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat now {};
  if (!readable || ::fstat(fd, &now) != 0) return bare_error();
  const bool has_look = scope_.is_noted(path, info);
  // First, so that it is known as ours if this process is killed after it has its mode.
  if (scope_.is_early()) {
    scope_.list->add_directory(scope_.item, path, info, DirectoryOrigin::delivery);
    scope_.see(path);
  }
  const Status changed = change_mode(fd, (info.st_mode & 01777) | (now.st_mode & S_ISGID));
  TRY(attributes_.keep("mode", changed ? 0 : changed.error().code));
  TRY(attributes_.keep("time",
                       ::utimensat(fd, "", times_of(info).data(), AT_EMPTY_PATH) == 0 ? 0 : errno));
  if (needs_sync || !has_look) syncs_.add(std::move(readable));
  return {};
}

Status CopyOut::tree(Fd source, Descent& at, const std::string& prefix) {
  auto walk = TreeWalk::begin(std::move(source), WalkFor::reading);
  if (!walk) return check(prefix.empty() ? "." : prefix, walk.error());
  at.walk.emplace(std::move(*walk));
  for (;;) {
    TRY_ASSIGN(const auto next, at.walk->next());
    if (!next) return {};
    TRY(step(at, *next, prefix + at.walk->path(*next)));
  }
}

Status CopyOut::step(Descent& at, const WalkStep& step, const std::string& path) {
  scope_.see(path);
  switch (step.kind) {
    case WalkStep::Kind::leaf:
      if (left_out_(path, step.info)) return {};
      return leaf_or_link(at, {{step.dir_fd, step.name, O_NOFOLLOW}, path, step.info});
    case WalkStep::Kind::directory:
      return begin_directory(at, step, path);
    case WalkStep::Kind::directory_end:
      return leave_directory(at, path, step.info);
    case WalkStep::Kind::fault:
      break;
  }
  if (scope_.is_early() && step.fault.code == ENOENT) return scope_.leave_all();
  return check(path, source_fault(step.fault, step.info));
}

Status CopyOut::leaf_or_link(Descent& at, const OutEntry& entry) {
  const bool is_link = S_ISLNK(entry.info.st_mode) && scope_.links != nullptr;
  return is_link ? link(at, entry) : leaf(at, entry);
}

Status CopyOut::leaf(Descent& at, const OutEntry& entry) {
  if (scope_.is_early() && scope_.is_noted(entry.path, entry.info)) {
    report_.add_unchanged(entry.info);
    return {};
  }
  if (!is_kept(entry.info)) {
    report_.add_special();
    return {};
  }
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (!is_reached) return {};
  return check(entry.path, leaves_.copy(entry, at.into()));
}

Status CopyOut::begin_directory(Descent& at, const WalkStep& step, const std::string& path) {
  if (is_target(step.info)) {
    TRY(at.walk->skip());
    return check(path, Error{ELOOP, "is the target itself"});
  }
  at.levels.push_back({step.name, step.info});
  if (may_stay_closed(path, step.info)) return {};
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (is_reached) return {};
  at.levels.pop_back();
  return at.walk->skip();
}

Status CopyOut::leave_directory(Descent& at, const std::string& path, const struct stat& info) {
  const bool is_open = at.opened() == at.levels.size();
  const Level level = std::move(at.levels.back());
  at.levels.pop_back();
  if (!is_open) return {};
  TRY_ASSIGN(const Fd target, at.targets.pop());
  return check(path, end_directory(target.get(), level, path, info));
}

// Opens what is not open yet of the directories that lead to the walk's position. False: one of
// them is lost.
Result<bool> CopyOut::reach(Descent& at) {
  while (at.opened() < at.levels.size()) {
    Level& level = at.levels[at.opened()];
    if (level.is_lost) return false;
    const std::string path = at.next_path();
    auto child = make_directory(at.targets.top(), level, path);
    if (!child) {
      level.is_lost = true;
      TRY(check(path, child.error()));
      return false;
    }
    if (level.is_new) at.into().is_changed = true;
    remove_leftovers(child->get(), names_);
    TRY(at.targets.push(std::move(*child)));
  }
  return true;
}

// Returns whether a directory in the target is opened only if something is copied into it.
bool CopyOut::may_stay_closed(const std::string& path, const struct stat& info) const {
  if (left_out_(path, info)) return true;
  return scope_.is_early() && !scope_.syncs_all && scope_.is_noted(path, info);
}

// Whether this is the target: the source may contain it, and a copy into it would never end.
bool CopyOut::is_target(const struct stat& info) const { return HardLinks::id(info) == target_id_; }

// Reports a fault of one entry; returns whether the item can go on.
Status CopyOut::check(const std::string& path, const Status& status) {
  if (status) return {};
  report_.add_fault(path, status.error());
  if (!ends_item(status.error().code)) return {};
  return Error{status.error().code, "the rest was not tried"};
}

Status CopyOut::sync() {
  if (!scope_.is_early() || is_changed_ || scope_.syncs_all)
    TRY(syncs_.add_directory(target_.get(), names_));
  return syncs_.finish();
}

// The links of an output: as links, or as what they lead to.

namespace {

bool has_directory(int target_fd, const std::string& name) {
  struct stat there {};
  return ::fstatat(target_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(there.st_mode);
}

}  // namespace

Status CopyOut::link(Descent& at, const OutEntry& entry) {
  const std::string& path = entry.path;
  const auto fate = scope_.links->look(entry.source, path);
  if (!fate && scope_.is_early() && fate.error().code == ENOENT) return scope_.leave_all();
  if (!fate) return check(path, system_error("what it leads to cannot be read", fate.error().code));
  switch (fate->action) {
    case LinkFate::Action::instead:
      report_.add_followed(path, fate->share == Linked::all);
      return what_is_led_to(at, *fate, path);
    case LinkFate::Action::other_text:
      return other_link(at, *fate, entry);
    case LinkFate::Action::loop:
      report_.add_loop(path);
      break;
    case LinkFate::Action::staged:
      report_.add_staged(path);
      break;
    case LinkFate::Action::as_it_is:
      break;
  }
  return kept_link(at, entry);
}

Status CopyOut::what_is_led_to(Descent& at, const LinkFate& fate, const std::string& path) {
  const ResolvedPath& place = *fate.place;
  if (!S_ISDIR(place.info.st_mode)) return leaf(at, {place.entry(), path, place.info});
  if (is_target(place.info)) return check(path, Error{ELOOP, "leads to the target itself"});
  if (depth_ >= k_most_links_to_directories) return check(path, too_many_links());
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (!is_reached) return {};
  remove_own_link(at.into().fd, std::string(split_path(path).name));
  const LeftOut before = std::exchange(left_out_, scope_.links->left_out(fate, path));
  ++depth_;
  Status copied = directory({place.entry(), path, place.info}, at.into());
  --depth_;
  left_out_ = before;
  return copied;
}

// Earlier, when the link led elsewhere or nowhere, a link may have been delivered under this name.
void CopyOut::remove_own_link(int target_fd, const std::string& name) const {
  struct stat there {};
  if (::fstatat(target_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!S_ISLNK(there.st_mode) || there.st_uid != ::geteuid() || !scope_.may_replace(there)) return;
  const auto text = read_link({target_fd, name, O_NOFOLLOW});
  if (text && (!text->starts_with('/') || scope_.links->tree().below(*text)))
    ::unlinkat(target_fd, name.c_str(), 0);
}

// A directory that an earlier delivery made there stays.
Status CopyOut::kept_link(Descent& at, const OutEntry& entry) {
  if (scope_.is_early() && scope_.is_noted(entry.path, entry.info)) return leaf(at, entry);
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (!is_reached) return {};
  if (!has_directory(at.into().fd, entry.name())) return leaf(at, entry);
  report_.add_kept_directory(entry.path);
  return scope_.leave_all();
}

// A directory that an earlier delivery made there, in the place of the link as it was then, gets
// the contents of the one that the link leads to now, and stays if it leads to none.
Status CopyOut::other_link(Descent& at, const LinkFate& fate, const OutEntry& entry) {
  const std::string& path = entry.path;
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (!is_reached) return {};
  if (!has_directory(at.into().fd, entry.name()))
    return check(path, leaves_.put_link(fate.text, at.into(), path, entry.info));
  const auto whole = scope_.links->directory_of(fate);
  if (!whole) {
    report_.add_kept_directory(path);
    return scope_.leave_all();
  }
  scope_.links->add_copy(whole->place->path, path);
  if (whole->share != Linked::all) report_.add_followed(path, false);
  return what_is_led_to(at, *whole, path);
}

}  // namespace nodestage
