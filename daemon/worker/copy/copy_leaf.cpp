#include "daemon/worker/copy/copy_leaf.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "common/os/file.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {
namespace {

// Parts of this size keep all threads busy with one file. Files below two parts are one.
constexpr std::uint64_t k_copy_part_bytes = 16ULL * 1024 * 1024;

// In a tree with many files that are being written, most are read again at once.
constexpr unsigned k_most_waits = 16;

constexpr unsigned char k_link = DT_LNK;
constexpr int k_open_copy = O_CREAT | O_EXCL | O_NOFOLLOW;

// Returns whether the directory, or one above it, is that of `info`.
bool is_in(const CopiedDirectory& directory, const struct stat& info) {
  for (const CopiedDirectory* at = &directory; at != nullptr; at = at->parent)
    if (at->info.st_dev == info.st_dev && at->info.st_ino == info.st_ino) return true;
  return false;
}

}  // namespace

Error unreadable_source(const std::string& path, int code) {
  const bool is_gone = code == ENOENT || code == ESTALE;
  const char* advice =
      is_gone ? "Do not write to a dataset while a job that uses it starts"
              : "The job's user must be able to read all of it, or leave it out with exclude=";
  return fault(code, shown(path) + ": cannot be read: " + std::strerror(code),
               advice_by_code(code, advice));
}

Error changed_source(const std::string& path, const SettleRules& rules) {
  return fault(k_was_changed,
               shown(path) + ": was being written: it was read " + std::to_string(rules.reads) +
                   " times, and changed each time",
               "Submit the job when the file is complete, or write it under another name and "
               "rename it when it is");
}

// A file whose copy is open.
struct CopyLeaf::OpenFile {
  CopiedDirectory& directory;
  std::string path;
  std::string full_path;
  Fd from;
  Fd to;
  struct stat info;
  FileToCopy::Mode mode;
  XattrCopy* xattrs;
  std::atomic<std::uint64_t>* from_storage;

  [[nodiscard]] FileToCopy source(SourcePace& pace) const {
    return {from.get(), info, full_path, mode, &pace, xattrs, nullptr, from_storage};
  }
};

// Its last part ends it.
struct CopyLeaf::LargeFile {
  OpenFile file;
  std::atomic<std::uint64_t> parts;
  std::atomic<bool> is_cut_off = false;
};

CopyLeaf::CopyLeaf(const Options& options, Space& space)
    : options_(options),
      open_source_(k_open_source | (options.links == LinksOut::kept ? O_NOFOLLOW : 0)) {
  for (unsigned i = 0; i < options.crew.most(); ++i) hands_.push_back({space.another(), {}});
}

void CopyLeaf::end_task(unsigned thread) {
  if (hands_[thread].pace.take_is_slow()) options_.crew.grow();
}

std::string CopyLeaf::full(const std::string& path) const {
  return path.empty() ? options_.path : options_.path + "/" + path;
}

Error CopyLeaf::unreadable(const std::string& path, int code) const {
  return unreadable_source(full(path), code);
}

Result<unsigned char> CopyLeaf::type_of(const At& at, const std::string& name) const {
  struct stat info {};
  if (::fstatat(at.from->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return unreadable(at.prefix + name, errno);
  }
  return static_cast<unsigned char>(IFTODT(info.st_mode));
}

Result<std::string> CopyLeaf::link_text(const At& at, const std::string& name) const {
  char text[PATH_MAX];
  const ssize_t size = ::readlinkat(at.from->get(), name.c_str(), text, sizeof text - 1);
  if (size < 0) return unreadable(at.prefix + name, errno);
  return std::string(text, static_cast<std::size_t>(size));
}

// A link back to a directory above it would never end.
Result<unsigned char> CopyLeaf::type_behind(const At& at, const std::string& name) const {
  if (options_.links == LinksOut::kept) return k_link;
  TRY_ASSIGN(const std::string text, link_text(at, name));
  struct stat info {};
  if (!leads_out(text, at.directory.depth)) return k_link;
  if (::fstatat(at.from->get(), name.c_str(), &info, 0) != 0) {
    if (leads_nowhere(errno)) return k_link;
    return unreadable(at.prefix + name, errno);
  }
  const bool is_loop = S_ISDIR(info.st_mode) && is_in(at.directory, info);
  return is_loop ? k_link : static_cast<unsigned char>(IFTODT(info.st_mode));
}

Status CopyLeaf::copy(At& at, const ListedName& entry) {
  if (entry.type == DT_REG) return file(at, entry.name, Links::kept);
  if (entry.type == DT_LNK) return symlink(at, entry.name, Links::kept);
  ++skipped_;
  return {};
}

Status CopyLeaf::to(At& at) {
  if (at.to) return {};
  TRY_ASSIGN(at.to, options_.directories.to(at.directory, space_of(at.thread)));
  return {};
}

Status CopyLeaf::begin(At& at, Links links) {
  TRY(to(at));
  Space& space = space_of(at.thread);
  if (links == Links::copied) {
    space.goes_on();
    return {};
  }
  ++taken_;
  ++options_.meter.files;
  return space.will_make();
}

Status CopyLeaf::file(At& at, const std::string& name, Links links) {
  const auto asked = SourcePace::Clock::now();
  auto from = open_at(at.from->get(), name, open_source_);
  if (!from) return unreadable(at.prefix + name, from.error().code);
  struct stat info {};
  if (::fstat(from->get(), &info) != 0) return unreadable(at.prefix + name, errno);
  if (!S_ISREG(info.st_mode)) return unreadable(at.prefix + name, ESTALE);
  info.st_mode = mode_with(options_.writes, info.st_mode);
  hands_[at.thread].pace.add(asked, 0);
  TRY(begin(at, links));
  TRY_ASSIGN(const bool is_done, is_linked(at, name, info, links));
  return is_done ? Status() : new_file(at, name, std::move(*from), info);
}

Status CopyLeaf::new_file(At& at, const std::string& name, Fd from, const struct stat& info) {
  const mode_t mode = mode_of_copy(info);
  const bool is_set = (mode & ~options_.made_modes) == 0;
  const std::string path = at.prefix + name;
  const int access = options_.notes.listener != nullptr ? O_RDWR : O_WRONLY;
  auto to = open_at(at.to->get(), name, access | k_open_copy, is_set ? mode : 0600);
  if (!to) return space_of(at.thread).explain(path, to.error().code);
  options_.notes.unreadable.look_at(path, mode | S_IFREG);
  OpenFile file{at.directory,
                path,
                full(path),
                std::move(from),
                std::move(*to),
                info,
                is_set ? FileToCopy::Mode::set : FileToCopy::Mode::to_set,
                options_.xattrs,
                &options_.meter.from_storage};
  const FileToCopy source = file.source(hands_[at.thread].pace);
  TRY_ASSIGN(const bool is_shared, share_blocks(source, file.to.get(), options_.meter));
  if (is_shared) return end_file(file, Read::whole, at.thread);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < 2 * k_copy_part_bytes) {
    TRY_ASSIGN(const Read read, read_range(file, {0, size}, at.thread));
    return end_file(file, read, at.thread);
  }
  add_parts(at, std::move(file));
  return {};
}

Result<CopyLeaf::Read> CopyLeaf::read_range(const OpenFile& file, DataRange range,
                                            unsigned thread) {
  const Status copied = copy_range(file.source(hands_[thread].pace), file.to.get(), range,
                                   options_.meter, space_of(thread));
  if (copied) return Read::whole;
  if (copied.error().code == k_was_changed) return Read::cut_off;
  return copied.error();
}

// Adds the parts; the first is taken first.
void CopyLeaf::add_parts(At& at, OpenFile file) {
  const auto size = static_cast<std::uint64_t>(file.info.st_size);
  const std::uint64_t count = (size + k_copy_part_bytes - 1) / k_copy_part_bytes;
  CopiedDirectories::begin_part(file.directory);
  const std::shared_ptr<LargeFile> large(new LargeFile{std::move(file), count, false});
  for (std::uint64_t i = count; i-- > 0;) {
    const DataRange range{i * k_copy_part_bytes, std::min(size, (i + 1) * k_copy_part_bytes)};
    at.tasks.push_back(
        [this, large = large, range](unsigned thread) { return copy_part(*large, range, thread); });
  }
}

Status CopyLeaf::copy_part(LargeFile& large, DataRange range, unsigned thread) {
  Space& space = space_of(thread);
  OpenFile& file = large.file;
  space.goes_on();
  TRY_ASSIGN(const Read read, read_range(file, range, thread));
  if (read == Read::cut_off) large.is_cut_off = true;
  end_task(thread);
  if (--large.parts > 0) return {};
  TRY(end_file(file, large.is_cut_off ? Read::cut_off : Read::whole, thread));
  return options_.directories.end_part(file.directory, space);
}

// Reads a file again that was changed since it was opened. What only becomes longer each time is
// probably a log, and complete up to there.
Status CopyLeaf::read_until_settled(OpenFile& file, Read read, unsigned thread) {
  bool only_grows = true;
  for (unsigned reads = 1;; ++reads) {
    const int from = file.from.get();
    struct stat now {};
    if (read == Read::whole && has_held_still(from, file.info, options_.settle)) return {};
    if (::fstat(from, &now) != 0) return unreadable_source(file.full_path, errno);
    only_grows = only_grows && read == Read::whole && now.st_size > file.info.st_size;
    if (reads >= options_.settle.reads) break;
    if (++waits_ <= k_most_waits) options_.settle.wait(options_.settle.between);
    TRY(options_.meter.check());
    if (::fstat(from, &file.info) != 0) return unreadable_source(file.full_path, errno);
    file.info.st_mode = mode_with(options_.writes, file.info.st_mode);
    file.mode = FileToCopy::Mode::to_set;
    if (::ftruncate(file.to.get(), 0) != 0) return space_of(thread).explain(file.path, errno);
    const auto size = static_cast<std::uint64_t>(file.info.st_size);
    TRY_ASSIGN(read, read_range(file, {0, size}, thread));
  }
  if (!only_grows) return changed_source(file.full_path, options_.settle);
  options_.notes.growing.add(file.path);
  return {};
}

Status CopyLeaf::end_file(OpenFile& file, Read read, unsigned thread) {
  TRY(read_until_settled(file, read, thread));
  const Fd copy = heard(file.to);
  TRY(end_copy(file.source(hands_[thread].pace), std::move(file.to), space_of(thread)));
  announce(file, copy);
  return link_others(file.path, file.info, thread);
}

// Its mode may let nobody open it again.
Fd CopyLeaf::heard(const Fd& copy) const {
  if (options_.notes.listener == nullptr) return {};
  return Fd(::fcntl(copy.get(), F_DUPFD_CLOEXEC, 0));
}

void CopyLeaf::announce(const OpenFile& file, const Fd& copy) const {
  if (options_.notes.listener != nullptr)
    options_.notes.listener->file(file.path, copy.get(), file.info);
}

Status CopyLeaf::symlink(At& at, const std::string& name, Links links) {
  struct stat info {};
  const int from = at.from->get();
  const auto asked = SourcePace::Clock::now();
  const std::string path = at.prefix + name;
  if (::fstatat(from, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return unreadable(path, errno);
  TRY_ASSIGN(const std::string target, link_text(at, name));
  hands_[at.thread].pace.add(asked, 0);
  TRY(begin(at, links));
  if (links == Links::kept && leads_out(target, at.directory.depth))
    options_.notes.out_links.add_kept(path, target);
  TRY_ASSIGN(const bool is_done, is_linked(at, name, info, links));
  if (is_done) return {};
  const Space& space = space_of(at.thread);
  if (::symlinkat(target.c_str(), at.to->get(), name.c_str()) != 0)
    return space.explain(path, errno);
  const Status times = copy_times(at.to->get(), name.c_str(), info);
  if (!times) return space.explain(path, times.error().code);
  if (options_.notes.listener != nullptr) options_.notes.listener->symlink(path, target, info);
  return link_others(path, info, at.thread);
}

// Returns true if nothing remains to be done for that name here.
Result<bool> CopyLeaf::is_linked(At& at, const std::string& name, const struct stat& info,
                                 Links links) {
  using Turn = SharedLinks<Name>::Met::Turn;
  if (info.st_nlink < 2 || links == Links::copied) return false;
  // The directory must not end before a link that another thread makes in it.
  CopiedDirectories::begin_part(at.directory);
  const auto met = links_.meet(info, at.prefix + name, {&at.directory, name});
  if (met.turn == Turn::left) return true;
  TRY(options_.directories.end_part(at.directory, space_of(at.thread)));
  return met.turn == Turn::link && make_link(met.first, at.to->get(), at.prefix, name);
}

// Makes the links to a file, now complete as `path`, that other threads left to this one.
Status CopyLeaf::link_others(const std::string& path, const struct stat& info, unsigned thread) {
  if (info.st_nlink < 2) return {};
  Space& space = space_of(thread);
  for (auto& name : links_.done(info)) {
    TRY(options_.meter.check());
    TRY_ASSIGN(const SharedFd to, options_.directories.to(*name.directory, space));
    const std::string parent = CopiedDirectories::path(*name.directory);
    if (make_link(path, to->get(), parent.empty() ? parent : parent + "/", name.name)) {
      TRY(options_.directories.end_part(*name.directory, space));
      continue;
    }
    options_.crew.add(thread, {[this, name = std::move(name)](unsigned by) {
                        return copy_again(*name.directory, name.name, by);
                      }});
  }
  return {};
}

// `parent_path` is "" or ends in a slash.
bool CopyLeaf::make_link(const std::string& first, int to, const std::string& parent_path,
                         const std::string& name) const {
  const SplitPath split = split_path(first);
  const auto parent = open_directory_below(options_.directories.target_root(), split.parent);
  const bool is_made =
      parent && ::linkat(parent->get(), std::string(split.name).c_str(), to, name.c_str(), 0) == 0;
  if (is_made && options_.notes.listener != nullptr)
    options_.notes.listener->hard_link(parent_path + name, first);
  return is_made;
}

// If a link cannot be made (a mode, a limit of the file system), the file is copied once more.
Status CopyLeaf::copy_again(CopiedDirectory& directory, const std::string& name, unsigned thread) {
  const std::string path = CopiedDirectories::path(directory);
  const auto from = options_.directories.from(directory);
  if (!from) return unreadable(path, from.error().code);
  At at{directory, *from, nullptr, path.empty() ? path : path + "/", thread, {}};
  TRY_ASSIGN(unsigned char type, type_of(at, name));
  if (type == DT_LNK) {
    TRY_ASSIGN(type, type_behind(at, name));
  }
  TRY(type == DT_LNK ? symlink(at, name, Links::copied) : file(at, name, Links::copied));
  if (!at.tasks.empty()) options_.crew.add(thread, std::move(at.tasks));
  return options_.directories.end_part(directory, space_of(thread));
}

}  // namespace nodestage
