#include "cli/pack/pack_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/base/conversation.hpp"
#include "cli/base/listing.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/deliver/pack.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

Result<PackOutput> open_place(const std::string& output) {
  const std::size_t slash = output.rfind('/');
  const std::string parent = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : output.substr(0, slash);
  TRY_ASSIGN(Fd directory, open_at(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY));
  return PackOutput{std::move(directory), output.substr(slash + 1)};  // npos + 1 is 0
}

// Returns whether `inner` is `outer` or below it.
bool lies_below(int inner, int outer) {
  struct stat wanted {};
  struct stat before {};
  if (::fstat(outer, &wanted) != 0) return false;
  Fd at(::fcntl(inner, F_DUPFD_CLOEXEC, 0));
  for (;;) {
    struct stat info {};
    if (!at || ::fstat(at.get(), &info) != 0) return false;
    if (info.st_dev == wanted.st_dev && info.st_ino == wanted.st_ino) return true;
    if (info.st_dev == before.st_dev && info.st_ino == before.st_ino) return false;  // the root
    before = info;
    at = Fd(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
}

}  // namespace

int report_pack(const Error& error) {
  return error.code == k_wrong_usage ? wrong_usage(error.what, error.advice)
                                     : fault(error.what, error.advice);
}

Result<PackOutput> open_pack_output(const PackArguments& arguments, int source) {
  auto place = open_place(arguments.output);
  if (!place)
    return Error{k_fault, place.error().text(), "The archive's directory must exist: mkdir -p"};
  if (source >= 0 && lies_below(place->directory.get(), source))
    return Error{k_wrong_usage, "the archive would be inside the directory that it packs",
                 "Name a file outside of " + arguments.directory + "."};
  struct stat info {};
  const bool is_there =
      ::fstatat(place->directory.get(), place->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there && S_ISDIR(info.st_mode))
    return Error{k_wrong_usage, arguments.output + ": is a directory", "Name a file."};
  if (is_there && arguments.overwrite == Overwrite::refuse)
    return Error{k_fault, arguments.output + ": already exists", pack_advice(EEXIST)};
  return place;
}

Result<std::optional<std::int64_t>> pack_mtime(const PackArguments& arguments) {
  if (arguments.mtime.empty()) return std::optional<std::int64_t>();
  const auto moment = parse_moment(arguments.mtime);
  if (moment) return std::optional(*moment);
  return Error{k_wrong_usage, "--mtime: " + moment.error().text(),
               "Write --mtime=2026-11-21, 2026-11-21T15:30:00 (UTC) or @SECONDS."};
}

PendingNames pack_names() { return {".nodestage-pack-" + std::to_string(::getpid()) + "-"}; }

Status put_in_place(Fd file, const PendingName& pending, const PackOutput& place,
                    Overwrite overwrite) {
  if (::fsync(file.get()) != 0) return system_error("cannot write the file");
  TRY(close_checked(std::move(file)));
  TRY(overwrite == Overwrite::replace ? pending.commit(place.name)
                                      : pending.commit_new(place.name));
  if (::fsync(place.directory.get()) != 0 && errno != EINVAL)
    return system_error("cannot write the file's directory");
  return {};
}

std::string pack_advice(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "Free some space there, or write to another directory.";
    case EACCES:
    case EPERM:
      return "Check that you may write there.";
    case EEXIST:
      return "--force replaces it.";
    case k_foreign_entry:
      return "Pack directories beside it, or stage the directory itself without it: exclude=NAME.";
    case k_was_changed:
      return "Nothing was left behind; pack it when nothing writes to it any more.";
    default:
      return "Nothing was left behind; try again.";
  }
}

}  // namespace nodestage
