#include "daemon/worker/entry_maker.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
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

Error no_target(const std::string& link, int code) {
  return fault(code, "is a hard link to '" + shown(link) + "', which is not there",
               "include=, exclude= and strip= must not part hard links");
}

// Which of both it is, O_DIRECTORY | O_NOFOLLOW does not tell.
Error no_directory(int code) {
  return fault(code,
               "is below what the archive holds as a symbolic link or a file, not as a directory",
               "nodestage follows no links there; make the archive again without that link");
}

bool is_no_directory(int code) { return code == ELOOP || code == ENOTDIR; }

}  // namespace

std::string path_in(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : parent + "/" + name;
}

Result<int> EntryMaker::parent_of(const std::string& parent, const NewEntry& entry) {
  auto fd = directories_.open(parent);
  if (fd) return fd;
  if (is_no_directory(fd.error().code)) return no_directory(fd.error().code);
  return way_.space.explain(path_in(parent, entry.name), fd.error().code);
}

Status EntryMaker::make(const std::string& parent, const NewEntry& entry) {
  TRY_ASSIGN(const int directory, parent_of(parent, entry));
  const std::string path = path_in(parent, entry.name);
  if (entry.kind == Entry::Kind::hard_link) return hard_link(directory, path, entry);
  if (entry.kind != Entry::Kind::file) return symlink(directory, path, entry);
  TRY_ASSIGN(Fd file, create_in(directory, path, entry));
  std::uint64_t end = 0;
  TRY(fill(file.get(), path, entry, end));
  return complete(std::move(file), path, entry, end);
}

Status EntryMaker::make_room(int parent, const std::string& name, const std::string& path) const {
  if (::unlinkat(parent, name.c_str(), 0) == 0) return {};
  if (errno == EISDIR && ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return {};
  if (errno == ENOTEMPTY || errno == EEXIST) {
    return fault(errno, "has the name of a directory that the archive fills", "Pack it again");
  }
  return way_.space.explain(path, errno);
}

// Calls `make` (0, or -1 and errno), once more after making room.
template <typename Make>
Status EntryMaker::make_name(int parent, const std::string& name, const std::string& path,
                             Make make) const {
  if (make() >= 0) return {};
  if (errno != EEXIST) return way_.space.explain(path, errno);
  TRY(make_room(parent, name, path));
  return make() >= 0 ? Status() : way_.space.explain(path, errno);
}

Result<Fd> EntryMaker::create(const std::string& parent, const NewEntry& entry) {
  TRY_ASSIGN(const int directory, parent_of(parent, entry));
  return create_in(directory, path_in(parent, entry.name), entry);
}

Result<Fd> EntryMaker::create_in(int parent, const std::string& path, const NewEntry& entry) const {
  int fd = -1;
  TRY(make_name(parent, entry.name, path, [&] {
    constexpr int k_flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    return fd = ::openat(parent, entry.name.c_str(), k_flags, entry.mode);
  }));
  return Fd(fd);
}

Status EntryMaker::fill(int fd, const std::string& path, const NewEntry& entry,
                        std::uint64_t& end) const {
  Status filled;
  if (entry.from != nullptr) {
    TRY(way_.space.will_make());
    FileSink sink(fd, entry.size, {way_.meter, way_.space, way_.quit});
    filled = entry.from->write(entry.id, sink);
    end = sink.end();
    return filled || !sink.failed_to_write() ? filled
                                             : way_.space.explain(path, filled.error().code);
  }
  const auto write = [&](const NewEntry::Part& part) {
    end = std::max(end, part.offset + part.data.size());
    filled = write_at(fd, part.offset, part.data);
    return static_cast<bool>(filled);
  };
  if (!entry.data.data.empty()) write(entry.data);
  if (filled) static_cast<void>(std::all_of(entry.more.begin(), entry.more.end(), write));
  return filled ? filled : Status(way_.space.explain(path, filled.error().code));
}

Status EntryMaker::complete(Fd file, const std::string& path, const NewEntry& entry,
                            std::uint64_t end) const {
  if (end < entry.size && ::ftruncate(file.get(), static_cast<off_t>(entry.size)) != 0) {
    return way_.space.explain(path, errno);
  }
  const auto times = times_of(entry.mtime);
  if (::futimens(file.get(), times.data()) != 0) return way_.space.explain(path, errno);
  const Status closed = close_checked(std::move(file));
  return closed ? closed : Status(way_.space.explain(path, closed.error().code));
}

Status EntryMaker::hard_link(int parent, const std::string& path, const NewEntry& entry) const {
  const SplitPath target = split_path(entry.link);
  const auto directory = open_directory_below(way_.root_fd, target.parent);
  if (!directory) return no_target(entry.link, directory.error().code);
  const std::string name(target.name);
  struct stat info {};
  if (::fstatat(directory->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return no_target(entry.link, errno);
  }
  return make_name(parent, entry.name, path, [&] {
    return ::linkat(directory->get(), name.c_str(), parent, entry.name.c_str(), 0);
  });
}

Result<Fd> EntryMaker::create_again(const std::string& parent, const NewEntry& entry) {
  TRY_ASSIGN(const int directory, parent_of(parent, entry));
  const std::string path = path_in(parent, entry.name);
  struct stat info {};
  if (::fstatat(directory, entry.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return way_.space.explain(path, errno);
  }
  if (!S_ISREG(info.st_mode)) return Fd();
  if (::fchmodat(directory, entry.name.c_str(), 0600, 0) != 0) {
    return way_.space.explain(path, errno);
  }
  auto file = open_at(directory, entry.name, O_WRONLY | O_TRUNC | O_NOFOLLOW);
  if (!file) return way_.space.explain(path, file.error().code);
  if (::fchmod(file->get(), entry.mode) != 0) return way_.space.explain(path, errno);
  return file;
}

Status EntryMaker::symlink(int parent, const std::string& path, const NewEntry& entry) const {
  TRY(make_name(parent, entry.name, path,
                [&] { return ::symlinkat(entry.link.c_str(), parent, entry.name.c_str()); }));
  const auto times = times_of(entry.mtime);
  if (::utimensat(parent, entry.name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0) return {};
  return way_.space.explain(path, errno);
}

Status EntryMaker::make_directory(const std::string& path) {
  const SplitPath split = split_path(path);
  NewEntry entry;
  entry.name = split.name;
  TRY_ASSIGN(const int parent, parent_of(std::string(split.parent), entry));
  const auto make = [&] { return ::mkdirat(parent, entry.name.c_str(), 0777); };
  if (make() == 0 || (errno == EEXIST && open_directory_at(parent, entry.name))) return {};
  return make_name(parent, entry.name, path, make);
}

Status EntryMaker::set_attributes(const std::string& path, const DirectoryAttributes& attributes) {
  auto directory = directories_.open(path);
  if (!directory && is_no_directory(directory.error().code)) {
    return no_directory(directory.error().code);
  }
  if (!directory) return way_.space.explain(path, directory.error().code);
  struct stat info {};
  if (::fstat(*directory, &info) != 0) return way_.space.explain(path, errno);
  if ((info.st_mode & 07777) != attributes.mode) {
    const Status changed = change_mode(*directory, attributes.mode);
    if (!changed) return way_.space.explain(path, changed.error().code);
  }
  const auto times = times_of(attributes.mtime);
  if (::utimensat(*directory, "", times.data(), AT_EMPTY_PATH) == 0) return {};
  return way_.space.explain(path, errno);
}

}  // namespace nodestage
