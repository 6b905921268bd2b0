#include "daemon/worker/tree_writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>

#include "common/file.hpp"
#include "daemon/worker/dir_stack.hpp"
#include "daemon/worker/pending_file.hpp"

namespace nodestage {
namespace {

// Access times stay "now".
std::array<timespec, 2> times_of(const std::optional<timespec>& mtime) {
  return {timespec{0, UTIME_OMIT}, mtime.value_or(timespec{0, UTIME_OMIT})};
}

}  // namespace

TreeWriter::TreeWriter(int root_fd, mode_t umask, Meter& meter, Space& space,
                       TreeWriterLimits /*limits*/)
    : root_(root_fd), umask_(umask), meter_(meter), space_(space) {}

TreeWriter::~TreeWriter() = default;

const std::string* TreeWriter::failed_entry() const { return nullptr; }

Status TreeWriter::add(const Entry& entry, const EntryData& from, std::uint64_t id) {
  TRY(add(entry));
  if (entry.kind != Entry::Kind::file) return {};
  TRY(space_.will_write(entry.size));
  Status written = from.write(id, *sink_);
  if (!written && sink_->failed_to_write()) return space_.explain(entry.name, written.error().code);
  return written;
}

Status TreeWriter::write(std::uint64_t offset, Slice data) {
  if (!sink_ && entry_.kind == Entry::Kind::hard_link) {
    TRY_ASSIGN(const int parent, parent_of(entry_));
    TRY(open_late_data(parent, std::string(split_path(entry_.name).name), entry_));
  }
  if (!sink_) return {};
  TRY(space_.will_write(data.size()));
  Status written = sink_->write(offset, data.bytes());
  if (!written && sink_->failed_to_write())
    return space_.explain(entry_.name, written.error().code);
  return written;
}

Status TreeWriter::add(const Entry& entry) {
  TRY(end_file());
  TRY(meter_.check());
  entry_ = entry;
  if (entry.kind == Entry::Kind::other) {
    ++skipped_;
    return {};
  }
  if (entry.name.empty()) {
    if (entry.kind != Entry::Kind::directory) return fault(EINVAL, "an entry without a name", "");
    directories_[""] = {mode_of(entry), entry.mtime};
    return {};
  }
  TRY_ASSIGN(const int parent, parent_of(entry));
  const std::string name(split_path(entry.name).name);
  TRY(space_.will_make());
  if (entry.kind == Entry::Kind::directory) return add_directory(parent, name, entry);
  ++meter_.files;
  switch (entry.kind) {
    case Entry::Kind::file:
      return add_file(parent, name, entry);
    case Entry::Kind::hard_link:
      return add_hard_link(parent, name, entry);
    default:
      return add_special(parent, name, entry);
  }
}

Result<int> TreeWriter::parent_of(const Entry& entry) {
  const std::string_view path = split_path(entry.name).parent;
  if (parent_ && path == parent_path_) return parent_.get();
  auto parent = make_directories_below(root_, path, 0777 | S_IRWXU);
  // Which of both it is, O_DIRECTORY | O_NOFOLLOW does not tell.
  if (!parent && (parent.error().code == ELOOP || parent.error().code == ENOTDIR)) {
    return fault(parent.error().code,
                 "is below what the archive holds as a symbolic link or a file, not as a directory",
                 "nodestage follows no links there; make the archive again without that link");
  }
  if (!parent) return space_.explain(entry.name, parent.error().code);
  parent_ = std::move(*parent);
  parent_path_ = path;
  return parent_.get();
}

// Removes what has the name already, as the later entry wins.
Status TreeWriter::make_room(int parent, const std::string& name, const Entry& entry) {
  if (::unlinkat(parent, name.c_str(), 0) == 0) return {};
  if (errno == EISDIR && ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) {
    directories_.erase(entry.name);
    return {};
  }
  if (errno == ENOTEMPTY || errno == EEXIST) {
    return fault(errno, "has the name of a directory that the archive fills", "Pack it again");
  }
  return space_.explain(entry.name, errno);
}

// Calls `make` (0, or -1 and errno), once more after making room.
template <typename Make>
Status TreeWriter::make(int parent, const std::string& name, const Entry& entry, Make make) {
  if (make() >= 0) return {};
  if (errno != EEXIST) return space_.explain(entry.name, errno);
  TRY(make_room(parent, name, entry));
  return make() >= 0 ? Status() : space_.explain(entry.name, errno);
}

Status TreeWriter::add_directory(int parent, const std::string& name, const Entry& entry) {
  directories_[entry.name] = {mode_of(entry), entry.mtime};
  if (::mkdirat(parent, name.c_str(), 0700) == 0) return {};
  if (errno == EEXIST && open_directory_at(parent, name)) return {};
  return make(parent, name, entry, [&] { return ::mkdirat(parent, name.c_str(), 0700); });
}

Status TreeWriter::add_file(int parent, const std::string& name, const Entry& entry) {
  int fd = -1;
  TRY(make(parent, name, entry, [&] {
    constexpr int k_flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    return fd = ::openat(parent, name.c_str(), k_flags, mode_of(entry));
  }));
  file_ = Fd(fd);
  sink_.emplace(fd, entry.size, meter_);
  return {};
}

Status TreeWriter::end_file() {
  if (!sink_) return {};
  const std::uint64_t end = sink_->end();
  sink_.reset();
  Fd file = std::move(file_);
  if (end < entry_.size && ::ftruncate(file.get(), static_cast<off_t>(entry_.size)) != 0) {
    return space_.explain(entry_.name, errno);
  }
  const auto times = times_of(entry_.mtime);
  if (::futimens(file.get(), times.data()) != 0) return space_.explain(entry_.name, errno);
  const Status closed = close_checked(std::move(file));
  return closed ? closed : Status(space_.explain(entry_.name, closed.error().code));
}

Status TreeWriter::add_hard_link(int parent, const std::string& name, const Entry& entry) {
  if (entry.link == entry.name) return {};
  const SplitPath target = split_path(entry.link);
  const auto target_parent = open_directory_below(root_, target.parent);
  if (!target_parent) {
    return fault(target_parent.error().code,
                 "is a hard link to '" + shown(entry.link) + "', which is not there",
                 "include=, exclude= and strip= must not part hard links");
  }
  const std::string target_name(target.name);
  struct stat info {};
  if (::fstatat(target_parent->get(), target_name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return fault(errno, "is a hard link to '" + shown(entry.link) + "', which is not there",
                 "include=, exclude= and strip= must not part hard links");
  }
  return make(parent, name, entry, [&] {
    return ::linkat(target_parent->get(), target_name.c_str(), parent, name.c_str(), 0);
  });
}

// cpio (newc) gives the data with the last of a file's names.
Status TreeWriter::open_late_data(int parent, const std::string& name, const Entry& entry) {
  if (::fchmodat(parent, name.c_str(), 0600, 0) != 0) return space_.explain(entry.name, errno);
  auto file = open_at(parent, name, O_WRONLY | O_TRUNC | O_NOFOLLOW);
  if (!file) return space_.explain(entry.name, file.error().code);
  if (::fchmod(file->get(), mode_of(entry)) != 0) return space_.explain(entry.name, errno);
  file_ = std::move(*file);
  sink_.emplace(file_.get(), entry.size, meter_);
  return {};
}

Status TreeWriter::add_special(int parent, const std::string& name, const Entry& entry) {
  TRY(make(parent, name, entry, [&] {
    return entry.kind == Entry::Kind::symlink
               ? ::symlinkat(entry.link.c_str(), parent, name.c_str())
               : ::mkfifoat(parent, name.c_str(), mode_of(entry));
  }));
  const auto times = times_of(entry.mtime);
  if (::utimensat(parent, name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0) return {};
  return space_.explain(entry.name, errno);
}

// In reverse order of names a directory comes after all that is in it.
Status TreeWriter::finish() {
  TRY(end_file());
  parent_.reset();
  for (auto at = directories_.rbegin(); at != directories_.rend(); ++at) {
    TRY(set_directory(at->first, at->second));
  }
  return {};
}

Status TreeWriter::set_directory(const std::string& path, const Attributes& attributes) const {
  const auto directory = open_directory_below(root_, path);
  if (!directory) return space_.explain(path, directory.error().code);
  if (Status changed = change_mode(directory->get(), attributes.mode); !changed) {
    return space_.explain(path, changed.error().code);
  }
  const auto times = times_of(attributes.mtime);
  if (::utimensat(directory->get(), "", times.data(), AT_EMPTY_PATH) == 0) return {};
  return space_.explain(path, errno);
}

}  // namespace nodestage
