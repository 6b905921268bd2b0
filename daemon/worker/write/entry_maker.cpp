#include "daemon/worker/write/entry_maker.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr mode_t k_mode = 0777;

constexpr mode_t k_permissions = 0777;  // without set-id and sticky bits

// Access times stay "now".
std::array<timespec, 2> times_of(const std::optional<timespec>& mtime) {
  return {timespec{0, UTIME_OMIT}, mtime.value_or(timespec{0, UTIME_OMIT})};
}

Error no_target(const std::string& link, int code) {
  return fault(
      code, "is a hard link to '" + shown(link) + "', which does not exist",
      "include=, exclude= and strip= must not separate hard links; without these, make the "
      "archive again: it must contain a file before its links");
}

Error no_directory(int code) {
  if (code != ELOOP) {
    return fault(code, "is below a name that is a file in the archive, not a directory",
                 "Make the archive again without one of them");
  }
  return fault(code, "is below a name that is a symbolic link in the archive, not a directory",
               "nodestage follows no links there; make the archive again without that link");
}

bool is_no_directory(int code) { return code == ELOOP || code == ENOTDIR; }

}  // namespace

DirectoryCache::Place* DirectoryCache::find(std::string_view path) {
  auto* place = std::find_if(places_.begin(), places_.end(),
                             [path](const Place& known) { return known.fd && known.path == path; });
  return place == places_.end() ? nullptr : place;
}

Result<int> DirectoryCache::open(const std::string& path) {
  if (path.empty()) return root_;
  Place* place = find(path);
  if (place == nullptr) {
    auto fd = open_or_make(path);
    if (!fd && fd.error().code == EMFILE) {
      forget();
      fd = open_or_make(path);
    }
    if (!fd) return std::move(fd.error());
    place = std::min_element(places_.begin(), places_.end(),
                             [](const Place& a, const Place& b) { return a.used < b.used; });
    place->path = path;
    place->fd = std::move(*fd);
  }
  place->used = ++uses_;
  return place->fd.get();
}

// Most directories are new and in one that is open. Otherwise the path is opened from the root.
Result<Fd> DirectoryCache::open_or_make(const std::string& path) {
  const SplitPath split = split_path(path);
  if (const auto parent = open(std::string(split.parent))) {
    const std::string name(split.name);
    const bool is_new = ::mkdirat(*parent, name.c_str(), k_mode) == 0;
    if (is_new) ++made_;
    if (is_new || errno == EEXIST) {
      if (auto fd = open_directory_below(*parent, name)) return fd;
    }
  }
  return make_directories_below(root_, path, k_mode, &made_);
}

void DirectoryCache::forget() {
  for (Place& place : places_) place = {};
}

std::string path_in(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : parent + "/" + name;
}

// Returns whether an entry below a link is left out, if the settings allow that; counts it.
bool EntryMaker::leaves_out(const Error& error) const {
  if (error.code != ELOOP || options_.rules.escaping == Escaping::fail) return false;
  ++options_.rules.escaped;
  return true;
}

// Creates the directory if necessary. Only then is it known which thread did; so it is counted
// after.
Result<int> EntryMaker::open_directory(const std::string& path) {
  auto fd = directories_.open(path);
  TRY(count_directories(directories_.take_made()));
  return fd;
}

Status EntryMaker::count_directories(std::size_t made) {
  if (made == 0) return {};
  const Amount amount{made * in_blocks(1), made};
  TRY(options_.space.take(amount));
  options_.space.wrote(amount);
  return {};
}

// Empty: what is in it is left out.
Result<std::optional<int>> EntryMaker::parent_of(const std::string& parent, const NewEntry& entry) {
  const auto fd = open_directory(parent);
  if (fd) return std::optional(*fd);
  if (leaves_out(fd.error())) return std::optional<int>();
  if (is_no_directory(fd.error().code)) return no_directory(fd.error().code);
  return options_.space.explain(path_in(parent, entry.name), fd.error().code);
}

Result<bool> EntryMaker::make(const std::string& parent, const NewEntry& entry) {
  TRY_ASSIGN(const auto directory, parent_of(parent, entry));
  if (!directory) return false;
  const std::string path = path_in(parent, entry.name);
  if (entry.kind == Entry::Kind::hard_link) return hard_link(*directory, path, entry);
  if (entry.kind != Entry::Kind::file) {
    TRY(entry.kind == Entry::Kind::fifo ? fifo(*directory, path, entry)
                                        : symlink(*directory, path, entry));
    return true;
  }
  TRY_ASSIGN(Fd file, create_in(*directory, path, entry));
  std::uint64_t end = 0;
  TRY(fill(file.get(), path, entry, end));
  TRY(complete(std::move(file), path, entry, end));
  return true;
}

Status EntryMaker::make_room(int parent, const std::string& name, const std::string& path) const {
  if (::unlinkat(parent, name.c_str(), 0) == 0) return {};
  if (errno == EISDIR && ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return {};
  if (errno == ENOTEMPTY || errno == EEXIST) {
    return fault(errno, "has the name of a directory that the archive fills", "Pack it again");
  }
  return options_.space.explain(path, errno);
}

// Calls `make` (which returns 0, or -1 and errno), and once more after making room.
template <typename Make>
Status EntryMaker::make_name(int parent, const std::string& name, const std::string& path,
                             Make make) const {
  if (make() >= 0) return {};
  if (errno != EEXIST) return options_.space.explain(path, errno);
  TRY(make_room(parent, name, path));
  return make() >= 0 ? Status() : options_.space.explain(path, errno);
}

Result<Fd> EntryMaker::create(const std::string& parent, const NewEntry& entry) {
  TRY_ASSIGN(const auto directory, parent_of(parent, entry));
  return directory ? create_in(*directory, path_in(parent, entry.name), entry) : Fd();
}

Result<Fd> EntryMaker::create_in(int parent, const std::string& path, const NewEntry& entry) const {
  int fd = -1;
  TRY(make_name(parent, entry.name, path, [&] {
    constexpr int k_flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    return fd = ::openat(parent, entry.name.c_str(), k_flags, entry.mode & k_permissions);
  }));
  return Fd(fd);
}

Status EntryMaker::fill(int fd, const std::string& path, const NewEntry& entry,
                        std::uint64_t& end) const {
  Status filled;
  if (entry.from != nullptr) {
    TRY(options_.space.will_make());
    FileSink sink(fd, entry.size, {options_.meter, options_.space, options_.quit});
    filled = entry.from->write(entry.id, sink);
    end = sink.end();
    return filled || !sink.failed_to_write() ? filled
                                             : options_.space.explain(path, filled.error().code);
  }
  const auto write = [&](const NewEntry::Part& part) {
    end = std::max(end, part.offset + part.data.size());
    filled = write_at(fd, part.offset, part.data);
    return static_cast<bool>(filled);
  };
  if (!entry.data.data.empty()) write(entry.data);
  if (filled) static_cast<void>(std::all_of(entry.more.begin(), entry.more.end(), write));
  return filled ? filled : Status(options_.space.explain(path, filled.error().code));
}

Status EntryMaker::complete(Fd file, const std::string& path, const NewEntry& entry,
                            std::uint64_t end) const {
  if (end < entry.size && ::ftruncate(file.get(), static_cast<off_t>(entry.size)) != 0) {
    return options_.space.explain(path, errno);
  }
  // The mode comes last: it may deny writing, and an ACL has changed it.
  if (entry.xattrs) {
    if (::fchmod(file.get(), entry.mode | S_IWUSR) != 0) return options_.space.explain(path, errno);
    options_.rules.lost_xattrs += set_xattrs(file.get(), *entry.xattrs);
  }
  // Writing clears set-id bits.
  const mode_t sure = k_permissions & ~options_.rules.masked;
  const bool has_mode = !entry.xattrs && (entry.mode & ~sure) == 0;
  if (!has_mode && ::fchmod(file.get(), entry.mode) != 0)
    return options_.space.explain(path, errno);
  const auto times = times_of(entry.mtime);
  if (::futimens(file.get(), times.data()) != 0) return options_.space.explain(path, errno);
  const Status closed = close_checked(std::move(file));
  return closed ? closed : Status(options_.space.explain(path, closed.error().code));
}

Result<bool> EntryMaker::hard_link(int parent, const std::string& path,
                                   const NewEntry& entry) const {
  const SplitPath target = split_path(entry.link);
  const auto directory = open_directory_below(options_.root_fd, target.parent);
  if (!directory && leaves_out(directory.error())) return false;
  if (!directory) return no_target(entry.link, directory.error().code);
  const std::string name(target.name);
  struct stat info {};
  if (::fstatat(directory->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return no_target(entry.link, errno);
  }
  TRY(make_name(parent, entry.name, path, [&] {
    return ::linkat(directory->get(), name.c_str(), parent, entry.name.c_str(), 0);
  }));
  return true;
}

// By descriptors: another process may replace it with a link or another file meanwhile.
Result<Fd> EntryMaker::create_again(const std::string& parent, const NewEntry& entry) {
  TRY_ASSIGN(const auto directory, parent_of(parent, entry));
  if (!directory) return Fd();
  const std::string path = path_in(parent, entry.name);
  const auto failed = [&](int code) { return options_.space.explain(path, code); };
  const auto there = open_at(*directory, entry.name, O_PATH | O_NOFOLLOW);
  struct stat info {};
  if (!there) return failed(there.error().code);
  if (::fstat(there->get(), &info) != 0) return failed(errno);
  if (!S_ISREG(info.st_mode)) return create_in(*directory, path, entry);
  if (Status opened = change_mode(there->get(), 0600); !opened) return failed(opened.error().code);
  auto file = open_at(*directory, entry.name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat now {};
  if (!file) return failed(file.error().code);
  if (::fstat(file->get(), &now) != 0) return failed(errno);
  if (now.st_dev != info.st_dev || now.st_ino != info.st_ino) return failed(ESTALE);
  if (::ftruncate(file->get(), 0) != 0 || ::fchmod(file->get(), entry.mode) != 0)
    return failed(errno);
  return file;
}

Status EntryMaker::symlink(int parent, const std::string& path, const NewEntry& entry) const {
  TRY(make_name(parent, entry.name, path,
                [&] { return ::symlinkat(entry.link.c_str(), parent, entry.name.c_str()); }));
  return set_times(parent, path, entry);
}

Status EntryMaker::fifo(int parent, const std::string& path, const NewEntry& entry) const {
  TRY(make_name(parent, entry.name, path, [&] {
    return ::mkfifoat(parent, entry.name.c_str(), entry.mode & k_permissions);
  }));
  return set_times(parent, path, entry);
}

// Sets those of entries that are not opened.
Status EntryMaker::set_times(int parent, const std::string& path, const NewEntry& entry) const {
  const auto times = times_of(entry.mtime);
  if (::utimensat(parent, entry.name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0) return {};
  return options_.space.explain(path, errno);
}

Status EntryMaker::make_directory(const std::string& path, IfTaken if_taken) {
  const SplitPath split = split_path(path);
  NewEntry entry;
  entry.name = split.name;
  TRY_ASSIGN(const auto parent, parent_of(std::string(split.parent), entry));
  if (!parent) return {};
  const auto make = [&] { return ::mkdirat(*parent, entry.name.c_str(), 0777); };
  if (make() == 0) return count_directories(1);
  const bool is_taken = errno == EEXIST;
  if (is_taken && open_directory_at(*parent, entry.name)) return {};
  if (is_taken && if_taken == IfTaken::fail)
    return fault(EEXIST,
                 "nested extracts it to '" + shown(path) +
                     "', but a file or link of that name is in the archive before it",
                 "Leave one of them out (exclude= with this member's name leaves this one out), "
                 "or pack the archive again with another name for one");
  TRY(make_name(*parent, entry.name, path, make));
  return count_directories(1);
}

Status EntryMaker::set_attributes(const std::string& path, const DirectoryAttributes& attributes) {
  // Most exist already, and none is needed again.
  const auto there = open_directory_below(options_.root_fd, path);
  const auto directory = there ? Result<int>(there->get()) : open_directory(path);
  if (!directory && leaves_out(directory.error())) return {};
  if (!directory && is_no_directory(directory.error().code)) {
    return no_directory(directory.error().code);
  }
  if (!directory) return options_.space.explain(path, directory.error().code);
  if (attributes.xattrs) options_.rules.lost_xattrs += set_xattrs(*directory, *attributes.xattrs);
  struct stat info {};
  if (::fstat(*directory, &info) != 0) return options_.space.explain(path, errno);
  if ((info.st_mode & 07777) != attributes.mode) {
    const Status changed = change_mode(*directory, attributes.mode);
    if (!changed) return options_.space.explain(path, changed.error().code);
  }
  const auto times = times_of(attributes.mtime);
  if (::utimensat(*directory, "", times.data(), AT_EMPTY_PATH) == 0) return {};
  return options_.space.explain(path, errno);
}

}  // namespace nodestage
