// The links of an output: as links, or as what they lead to.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "daemon/worker/deliver/copy_descent.hpp"
#include "daemon/worker/deliver/copy_out.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {
namespace {

bool has_directory(int target_fd, const std::string& name) {
  struct stat there {};
  return ::fstatat(target_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(there.st_mode);
}

}  // namespace

Status CopyOut::link(Descent& at, const SourceEntry& source, const std::string& name,
                     const std::string& path, const struct stat& info) {
  const auto fate = scope_.links->look(source, path);
  if (!fate && scope_.is_early() && fate.error().code == ENOENT) return {};
  if (!fate) return check(path, system_error("what it leads to cannot be read", fate.error().code));
  switch (fate->way) {
    case LinkFate::Way::instead:
      report_.add_followed(path, fate->share == Linked::all);
      return what_is_led_to(at, *fate, name, path);
    case LinkFate::Way::other_text:
      return other_link(at, *fate, name, path, info);
    case LinkFate::Way::loop:
      report_.add_loop(path);
      return kept_link(at, source, name, path, info);
    case LinkFate::Way::staged:
      report_.add_staged(path);
      return kept_link(at, source, name, path, info);
    case LinkFate::Way::as_it_is:
      break;
  }
  return kept_link(at, source, name, path, info);
}

Status CopyOut::what_is_led_to(Descent& at, const LinkFate& fate, const std::string& name,
                               const std::string& path) {
  const JobPlace& place = *fate.place;
  if (!S_ISDIR(place.info.st_mode)) return leaf(at, place.entry(), name, path, place.info);
  if (is_target(place.info)) return check(path, Error{ELOOP, "leads to the target itself"});
  if (depth_ >= k_most_links_to_directories) return check(path, too_many_links());
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (!is_reached) return {};
  remove_own_link(at.into().fd, name);
  const LeftOut before = std::exchange(left_out_, scope_.links->left_out(fate, path));
  ++depth_;
  Status copied = directory(place.entry(), at.into(), path, place.info);
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
Status CopyOut::kept_link(Descent& at, const SourceEntry& source, const std::string& name,
                          const std::string& path, const struct stat& info) {
  if (scope_.is_early() && scope_.is_noted(path, info)) return leaf(at, source, name, path, info);
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (!is_reached) return {};
  if (!has_directory(at.into().fd, name)) return leaf(at, source, name, path, info);
  report_.add_kept_directory(path);
  return {};
}

// A directory that an earlier delivery made there, in the place of the link as it was then, gets
// the contents of the one that the link leads to now, and stays if it leads to none.
Status CopyOut::other_link(Descent& at, const LinkFate& fate, const std::string& name,
                           const std::string& path, const struct stat& info) {
  TRY_ASSIGN(const bool is_reached, reach(at));
  if (!is_reached) return {};
  if (!has_directory(at.into().fd, name))
    return check(path, leaves_.put_link(fate.text, at.into(), name, info));
  const auto whole = scope_.links->directory_of(fate);
  if (!whole) {
    report_.add_kept_directory(path);
    return {};
  }
  scope_.links->add_copy(whole->place->path, path);
  if (whole->share != Linked::all) report_.add_followed(path, false);
  return what_is_led_to(at, *whole, name, path);
}

}  // namespace nodestage
