#include "daemon/worker/copy/copy_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/xattr.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/worker/copy/copy_leaf.hpp"

namespace nodestage {
namespace {

// The number of names that are sorted and handed out at a time.
constexpr std::size_t k_sorted_names = 8192;
constexpr std::size_t k_batch_names = 16;
// Each of these waits for one answer of the source at a time.
constexpr unsigned k_waiting_threads = 16;

// If a default ACL or the umask would interfere, the mode is set once more.
mode_t modes_at_open(int to, mode_t umask) {
  const bool has_default_acl = ::fgetxattr(to, "system.posix_acl_default", nullptr, 0) >= 0;
  return has_default_acl ? 0 : 01777 & ~umask;
}

Result<Fd> open_to_read(int fd) {
  Fd readable(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!readable) return Error{errno, std::strerror(errno)};
  return readable;
}

class TreeRun {
 public:
  TreeRun(const std::string& path, const CopyTree::Options& options, CopiedDirectories& directories,
          mode_t made_modes, CopyNotes& notes)
      : options_(options),
        directories_(directories),
        notes_(notes),
        crew_({options.threads, std::max(options.threads, k_waiting_threads)}),
        leaves_({path, options.meter, directories, crew_, options.xattrs, made_modes, options.links,
                 notes, options.writes, options.settle},
                options.space) {}

  Status run();
  [[nodiscard]] const CopyLeaf& leaves() const { return leaves_; }

 private:
  using Entry = CopiedDirectory::Entry;
  Status list(CopiedDirectory& parent, const std::string& name, Entry entry, unsigned thread);
  Status list_names(CopiedDirectory& directory, const SharedFd& fd, unsigned thread);
  TaskCrew::Tasks tasks_for(CopiedDirectory& directory, std::vector<ListedName> names);
  Status copy_batch(CopiedDirectory& directory, std::vector<ListedName>& names, unsigned thread);
  Status copy_entry(CopyLeaf::At& at, ListedName& entry);
  Status copy_behind(CopyLeaf::At& at, const ListedName& link);
  void add_directory(CopiedDirectory& parent, const std::string& name, Entry entry,
                     TaskCrew::Tasks& tasks);
  TaskCrew::Task names_task(CopiedDirectory& directory, SharedFd fd);
  TaskCrew::Task batch_task(CopiedDirectory& directory, std::vector<ListedName> names);
  [[nodiscard]] static std::string prefix(const CopiedDirectory& directory);

  const CopyTree::Options& options_;
  CopiedDirectories& directories_;
  CopyNotes& notes_;
  TaskCrew crew_;
  CopyLeaf leaves_;
};

// The next names of an open directory.
TaskCrew::Task TreeRun::names_task(CopiedDirectory& directory, SharedFd fd) {
  return [this, &directory, fd = std::move(fd)](unsigned thread) {
    return list_names(directory, fd, thread);
  };
}

// Some entries of a directory that are not known to be directories.
TaskCrew::Task TreeRun::batch_task(CopiedDirectory& directory, std::vector<ListedName> names) {
  return [this, &directory, names = std::move(names)](unsigned thread) mutable {
    return copy_batch(directory, names, thread);
  };
}

Status TreeRun::run() {
  CopiedDirectory& root = directories_.root();
  if (options_.only != nullptr) {
    TaskCrew::Tasks first = tasks_for(root, *options_.only);
    TRY(directories_.end_part(root, leaves_.space_of(0)));  // instead of the listing
    return crew_.run(std::move(first));
  }
  TRY_ASSIGN(SharedFd fd, directories_.from(root));
  TaskCrew::Tasks first;
  first.push_back(names_task(root, std::move(fd)));
  return crew_.run(std::move(first));
}

std::string TreeRun::prefix(const CopiedDirectory& directory) {
  std::string path = CopiedDirectories::path(directory);
  return path.empty() ? path : path + "/";
}

void TreeRun::add_directory(CopiedDirectory& parent, const std::string& name, Entry entry,
                            TaskCrew::Tasks& tasks) {
  CopiedDirectories::begin_part(parent);
  tasks.push_back([this, &parent, name = name, entry](unsigned thread) {
    return list(parent, name, entry, thread);
  });
}

// With include globs, a directory is made when something in it is wanted.
Status TreeRun::list(CopiedDirectory& parent, const std::string& name, Entry entry,
                     unsigned thread) {
  const std::string path = prefix(parent) + name;
  if (options_.filter.wants(path) || options_.filter.may_want_below(path)) {
    const auto above = directories_.from(parent);
    if (!above) return leaves_.unreadable(path, above.error().code);
    const int follow = entry == Entry::link ? 0 : O_NOFOLLOW;
    auto fd = open_at((*above)->get(), name, O_RDONLY | O_DIRECTORY | follow);
    struct stat info {};
    if (!fd) return leaves_.unreadable(path, fd.error().code);
    if (::fstat(fd->get(), &info) != 0) return leaves_.unreadable(path, errno);
    info.st_mode = mode_with(options_.writes, info.st_mode);
    CopiedDirectory& directory = directories_.add(parent, name, info, std::move(*fd), entry);
    TRY_ASSIGN(const auto open, directories_.from(directory));
    if (options_.filter.wants(path)) TRY(directories_.to(directory, leaves_.space_of(thread)));
    TRY(list_names(directory, open, thread));
  }
  return directories_.end_part(parent, leaves_.space_of(thread));
}

// The rest of a large directory is left to a thread that has nothing else to do, so that names
// never outnumber the copies by much.
Status TreeRun::list_names(CopiedDirectory& directory, const SharedFd& fd, unsigned thread) {
  TRY(options_.meter.check());
  auto names = list_directory(fd->get(), k_sorted_names);
  if (!names) return leaves_.unreadable(CopiedDirectories::path(directory), names.error().code);
  const bool is_more = names->size() >= k_sorted_names;
  TaskCrew::Tasks tasks = tasks_for(directory, std::move(*names));
  if (is_more) {
    CopiedDirectories::begin_part(directory);
    tasks.insert(tasks.begin(), names_task(directory, fd));
  }
  crew_.add(thread, std::move(tasks));
  return directories_.end_part(directory, leaves_.space_of(thread));
}

// In the order of inodes, which on a disk is probably that of the data. Files come last, so that
// they are copied first.
TaskCrew::Tasks TreeRun::tasks_for(CopiedDirectory& directory, std::vector<ListedName> names) {
  const auto files = std::partition(names.begin(), names.end(),
                                    [](const ListedName& name) { return name.type == DT_DIR; });
  std::sort(files, names.end(),
            [](const ListedName& a, const ListedName& b) { return a.inode > b.inode; });
  TaskCrew::Tasks tasks;
  for (auto at = names.begin(); at != files; ++at)
    add_directory(directory, at->name, Entry::itself, tasks);
  for (auto at = files; at != names.end();) {
    const auto rest = static_cast<std::size_t>(names.end() - at);
    const auto end = at + static_cast<std::ptrdiff_t>(std::min(rest, k_batch_names));
    std::vector<ListedName> batch(std::make_move_iterator(at), std::make_move_iterator(end));
    CopiedDirectories::begin_part(directory);
    tasks.push_back(batch_task(directory, std::move(batch)));
    at = end;
  }
  return tasks;
}

// The tasks that an entry leads to (the parts of a large file) go first; otherwise too many files
// would be open.
Status TreeRun::copy_batch(CopiedDirectory& directory, std::vector<ListedName>& names,
                           unsigned thread) {
  const auto from = directories_.from(directory);
  if (!from) return leaves_.unreadable(CopiedDirectories::path(directory), from.error().code);
  CopyLeaf::At at{directory, *from, nullptr, prefix(directory), thread, {}};
  while (!names.empty() && at.tasks.empty()) {
    TRY(options_.meter.check());
    if (crew_.has_failed()) return {};
    TRY(copy_entry(at, names.back()));
    names.pop_back();
  }
  if (!names.empty()) {
    CopiedDirectories::begin_part(directory);
    at.tasks.insert(at.tasks.begin(), batch_task(directory, std::move(names)));
  }
  if (!at.tasks.empty()) crew_.add(thread, std::move(at.tasks));
  leaves_.end_task(thread);
  return directories_.end_part(directory, leaves_.space_of(thread));
}

Status TreeRun::copy_entry(CopyLeaf::At& at, ListedName& entry) {
  const std::string path = at.prefix + entry.name;
  if (options_.filter.excludes(path)) return {};
  if (entry.type == DT_UNKNOWN) {
    TRY_ASSIGN(entry.type, leaves_.type_of(at, entry.name));
  }
  if (entry.type == DT_DIR) {
    add_directory(at.directory, entry.name, Entry::itself, at.tasks);
    return {};
  }
  if (entry.type == DT_LNK && options_.links == LinksOut::followed) return copy_behind(at, entry);
  return options_.filter.wants(path) ? leaves_.copy(at, entry) : Status();
}

// Copies a link, or what it leads to.
Status TreeRun::copy_behind(CopyLeaf::At& at, const ListedName& link) {
  const std::string path = at.prefix + link.name;
  TRY_ASSIGN(const unsigned char type, leaves_.type_behind(at, link.name));
  if (type != DT_LNK && at.directory.links >= k_max_followed_links)
    return leaves_.unreadable(path, ELOOP);
  if (type == DT_DIR) {
    notes_.out_links.add_followed();
    add_directory(at.directory, link.name, Entry::link, at.tasks);
    return {};
  }
  if (!options_.filter.wants(path)) return {};
  if (type != DT_LNK) notes_.out_links.add_followed();
  return leaves_.copy(at, {link.inode, type, link.name});
}

}  // namespace

Status CopyTree::run(Fd from) {
  struct stat info {};
  auto source = open_to_read(from.get());
  if (!source) return unreadable_source(path_, source.error().code);
  if (::fstat(source->get(), &info) != 0) return unreadable_source(path_, errno);
  info.st_mode = mode_with(options_.writes, info.st_mode);
  auto to = open_to_read(to_);
  if (!to) return options_.space.explain("", to.error().code);
  const mode_t made_modes = modes_at_open(to->get(), options_.umask);
  notes_.listener = options_.listener;
  CopiedDirectories directories(std::move(*source), std::move(*to), info, notes_, options_.xattrs);
  TreeRun run(path_, options_, directories, made_modes, notes_);
  Status done = run.run();
  skipped_ = run.leaves().skipped();
  taken_ = run.leaves().taken();
  return done;
}

}  // namespace nodestage
