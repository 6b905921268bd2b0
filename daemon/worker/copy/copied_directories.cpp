#include "daemon/worker/copy/copied_directories.hpp"

#include <fcntl.h>

#include <cstring>

#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_open_directories = 64;  // with two descriptors each

Error bare_error(int code) { return Error{code, std::strerror(code)}; }

bool is_same(int fd, dev_t device, ino_t inode) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_dev == device && info.st_ino == inode;
}

}  // namespace

CopiedDirectories::CopiedDirectories(Fd from, Fd to, const struct stat& info, CopyNotes& notes,
                                     XattrCopy* xattrs)
    : notes_(notes),
      xattrs_(xattrs),
      root_from_(std::make_shared<const Fd>(std::move(from))),
      root_to_(std::make_shared<const Fd>(std::move(to))),
      root_(all_.emplace_back(std::make_unique<CopiedDirectory>(nullptr, "", info)).get()) {
  root_->is_made = true;
}

CopiedDirectory& CopiedDirectories::add(CopiedDirectory& parent, std::string name,
                                        const struct stat& info, Fd from,
                                        CopiedDirectory::Entry entry) {
  begin_part(parent);
  auto made = std::make_unique<CopiedDirectory>(&parent, std::move(name), info, entry);
  CopiedDirectory& directory = *made;
  {
    const std::lock_guard lock(mutex_);
    directory.turn = turns_.end();
    directory.self = all_.insert(all_.end(), std::move(made));
  }
  keep(directory, &CopiedDirectory::from, std::move(from));
  return directory;
}

// Returns its open descriptor, if any, and makes it the last to be closed.
SharedFd CopiedDirectories::open_one(CopiedDirectory& directory, SharedFd CopiedDirectory::*side) {
  const std::lock_guard lock(mutex_);
  if (directory.*side) turns_.splice(turns_.end(), turns_, directory.turn);
  return directory.*side;
}

// Another thread may have been faster.
SharedFd CopiedDirectories::keep(CopiedDirectory& directory, SharedFd CopiedDirectory::*side,
                                 Fd fd) {
  auto shared = std::make_shared<const Fd>(std::move(fd));
  std::vector<SharedFd> closed;  // closed without the lock
  const std::lock_guard lock(mutex_);
  if (directory.*side) return directory.*side;
  directory.*side = shared;
  if (directory.turn == turns_.end()) {
    directory.turn = turns_.insert(turns_.end(), &directory);
  }
  while (turns_.size() > k_open_directories) {
    CopiedDirectory& oldest = *turns_.front();
    turns_.pop_front();
    oldest.turn = turns_.end();
    closed.push_back(std::move(oldest.from));
    closed.push_back(std::move(oldest.to));
  }
  return shared;
}

Result<SharedFd> CopiedDirectories::from(CopiedDirectory& directory) {
  if (directory.parent == nullptr) return root_from_;
  if (auto open = open_one(directory, &CopiedDirectory::from)) return open;
  TRY_ASSIGN(Fd fd, open_source(directory));
  if (!is_same(fd.get(), directory.info.st_dev, directory.info.st_ino)) return bare_error(ESTALE);
  return keep(directory, &CopiedDirectory::from, std::move(fd));
}

// By its path below the root, or below the last link on the way, which is opened by its parent.
Result<Fd> CopiedDirectories::open_source(CopiedDirectory& directory) {
  std::string below;
  CopiedDirectory* top = &directory;
  for (; top->parent != nullptr && top->entry == CopiedDirectory::Entry::itself; top = top->parent)
    below.insert(0, top->name + (below.empty() ? "" : "/"));
  if (top->parent == nullptr) return open_directory_below(root_from_->get(), below);
  TRY_ASSIGN(const SharedFd above, from(*top->parent));
  const Fd fd(::openat(above->get(), top->name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return bare_error(errno);
  if (!is_same(fd.get(), top->info.st_dev, top->info.st_ino)) return bare_error(ESTALE);
  return open_directory_below(fd.get(), below);
}

Result<SharedFd> CopiedDirectories::to(CopiedDirectory& directory, Space& space) {
  if (directory.parent == nullptr) return root_to_;
  if (auto open = open_one(directory, &CopiedDirectory::to)) return open;
  if (!directory.is_made) {
    std::vector<CopiedDirectory*> missing;
    for (auto* at = &directory; !at->is_made; at = at->parent) missing.push_back(at);
    for (std::size_t i = missing.size(); i-- > 0;) TRY(make(*missing[i], space));
  }
  auto fd = open_again(directory);
  if (!fd) return space.explain(path(directory), fd.error().code);
  return fd;
}

Status CopiedDirectories::make(CopiedDirectory& directory, Space& space) {
  const std::lock_guard lock(directory.making);
  if (directory.is_made) return {};
  TRY_ASSIGN(const SharedFd parent, to(*directory.parent, space));
  const auto failed = [&](int code) { return space.explain(path(directory), code); };
  TRY(space.will_make());
  if (::mkdirat(parent->get(), directory.name.c_str(), 0700) != 0) return failed(errno);
  auto fd = open_at(parent->get(), directory.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat info {};
  if (!fd) return failed(fd.error().code);
  if (::fstat(fd->get(), &info) != 0) return failed(errno);
  directory.made_device = info.st_dev;
  directory.made_inode = info.st_ino;
  keep(directory, &CopiedDirectory::to, std::move(*fd));
  directory.is_made = true;
  return {};
}

// Opens the copy of a directory that was made before.
Result<SharedFd> CopiedDirectories::open_again(CopiedDirectory& directory) {
  if (auto open = open_one(directory, &CopiedDirectory::to)) return open;
  TRY_ASSIGN(const Fd way, open_directory_below(root_to_->get(), path(directory)));
  if (!is_same(way.get(), directory.made_device, directory.made_inode)) return bare_error(ESTALE);
  Fd fd(::openat(way.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return bare_error(errno);
  return keep(directory, &CopiedDirectory::to, std::move(fd));
}

// A loop: the recursion of a destructor or function would fail at some depth.
Status CopiedDirectories::end_part(CopiedDirectory& directory, const Space& space) {
  SharedFd below;
  for (CopiedDirectory* at = &directory; at != nullptr && --at->parts == 0;) {
    CopiedDirectory* parent = at->parent;
    if (at->is_made) TRY(finish(*at, below, space));
    remove(*at);
    at = parent;
  }
  return {};
}

// `below`: a directory in it that was finished right before, if any; its ".." is the shortest path.
Status CopiedDirectories::finish(CopiedDirectory& directory, SharedFd& below, const Space& space) {
  SharedFd fd = directory.parent == nullptr ? root_to_ : open_one(directory, &CopiedDirectory::to);
  if (!fd && below) {
    Fd above(::openat(below->get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (above && is_same(above.get(), directory.made_device, directory.made_inode)) {
      fd = std::make_shared<const Fd>(std::move(above));
    }
  }
  if (!fd) {
    auto again = open_again(directory);
    if (!again) return space.explain(path(directory), again.error().code);
    fd = std::move(*again);
  }
  notes_.unreadable.look_at(path(directory), directory.info.st_mode);
  if (xattrs_ != nullptr) TRY(finish_xattrs(directory, fd->get(), space));
  // The mode comes last: it may deny everything to the owner.
  if (::futimens(fd->get(), times_of(directory.info).data()) != 0 ||
      ::fchmod(fd->get(), directory.info.st_mode & 07777) != 0) {
    return space.explain(path(directory), errno);
  }
  if (notes_.listener != nullptr)
    notes_.listener->directory(path(directory), fd->get(), directory.info);
  below = std::move(fd);
  return {};
}

Status CopiedDirectories::finish_xattrs(CopiedDirectory& directory, int to, const Space& space) {
  const auto source = from(directory);
  if (!source) return space.explain(path(directory), source.error().code);
  // A directory that was opened again is not open for reading.
  const Fd readable(::openat((*source)->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Status copied =
      readable ? copy_xattrs(readable.get(), to, *xattrs_) : Status(bare_error(errno));
  return copied ? copied : Status(space.explain(path(directory), copied.error().code));
}

void CopiedDirectories::remove(CopiedDirectory& directory) {
  std::unique_ptr<CopiedDirectory> gone;  // its descriptors are closed without the lock
  const std::lock_guard lock(mutex_);
  if (&directory == root_) return;
  if (directory.turn != turns_.end()) turns_.erase(directory.turn);
  gone = std::move(*directory.self);
  all_.erase(directory.self);
}

std::string CopiedDirectories::path(const CopiedDirectory& directory) {
  std::vector<const std::string*> names;
  for (const auto* at = &directory; at->parent != nullptr; at = at->parent) {
    names.push_back(&at->name);
  }
  std::string path;
  for (std::size_t i = names.size(); i-- > 0;) {
    path += *names[i];
    if (i > 0) path += '/';
  }
  return path;
}

}  // namespace nodestage
