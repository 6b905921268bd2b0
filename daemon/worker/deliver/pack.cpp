#include "daemon/worker/deliver/pack.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/encodings.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_pack_block_bytes = 1 << 20;

// libarchive takes names to be in the charset of the thread's locale. It converts them to UTF-8
// where a format has that, and says in a zip that they are so. Without a charset, it does neither.
class NameLocale {
 public:
  enum class Charset { utf8, none };
  explicit NameLocale(Charset charset) : before_(::uselocale(locale_of(charset))) {}
  NameLocale(const NameLocale&) = delete;
  NameLocale& operator=(const NameLocale&) = delete;
  ~NameLocale() { ::uselocale(before_); }

 private:
  static locale_t locale_of(Charset charset) {
    static const locale_t k_utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    static const locale_t k_none = ::newlocale(LC_CTYPE_MASK, "C", nullptr);
    return charset == Charset::utf8 ? k_utf8 : k_none;
  }
  const locale_t before_;
};

bool is_utf8(const char* name) {
  const NameLocale locale(NameLocale::Charset::utf8);
  return name != nullptr && std::mbstowcs(nullptr, name, 0) != static_cast<std::size_t>(-1);
}

// For the vector of walks.
class Pushed {
 public:
  Pushed(std::vector<const TreeWalk*>& walks, const TreeWalk& walk) : walks_(walks) {
    walks_.push_back(&walk);
  }
  Pushed(const Pushed&) = delete;
  Pushed& operator=(const Pushed&) = delete;
  ~Pushed() { walks_.pop_back(); }

 private:
  std::vector<const TreeWalk*>& walks_;
};

Status map_holes(archive_entry* entry, int fd, const struct stat& info) {
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::uint64_t offset = 0;
  for (;;) {
    TRY_ASSIGN(const auto range, next_data(fd, offset, size));
    if (!range) break;
    ::archive_entry_sparse_add_entry(entry, static_cast<la_int64_t>(range->begin),
                                     static_cast<la_int64_t>(range->end - range->begin));
    offset = range->end;
  }
  if (offset == 0) ::archive_entry_sparse_add_entry(entry, 0, 0);  // one hole, in bsdtar's notation
  return {};
}

Error entry_error(const std::string& name, const Error& cause) {
  return Error{cause.code, name + ": " + cause.what, cause.advice};
}

}  // namespace

void Pack::EntryDeleter::operator()(archive_entry* entry) const { ::archive_entry_free(entry); }

Pack::Pack(OutputReport& report, std::string user)
    : report_(report), user_(std::move(user)), archive_(::archive_write_new()) {}

Pack::~Pack() { ::archive_write_free(archive_); }

Result<std::unique_ptr<Pack>> Pack::begin(int fd, const std::string& suffix, unsigned threads,
                                          const std::string& user, OutputReport& report) {
  std::unique_ptr<Pack> pack(new Pack(report, user));
  if (pack->archive_ == nullptr) return system_error("archive", ENOMEM);
  TRY(pack->open(fd, suffix, threads));
  return pack;
}

Status Pack::open(int fd, const std::string& suffix, unsigned threads) {
  const ArchiveName* name = archive_name(suffix);
  const Container container = name == nullptr ? Container::tar : name->container;
  const Coding coding = name == nullptr ? Coding::plain : name->coding;
  is_tar_ = container == Container::tar;
  block_.resize(k_pack_block_bytes);
  TRY(fault(::archive_write_set_format_by_name(archive_, row_of(container).packed_as.data())));
  if (coding != Coding::plain) {
    TRY(fault(::archive_write_add_filter_by_name(archive_, row_of(coding).name.data())));
    // Where a codec, or an older libarchive, has no such option, one thread compresses.
    ::archive_write_set_filter_option(archive_, nullptr, "threads",
                                      std::to_string(std::max(threads, 1U)).c_str());
  }
  ::archive_write_set_bytes_per_block(archive_, static_cast<int>(k_pack_block_bytes));
  ::archive_write_set_bytes_in_last_block(archive_, 1);
  return fault(::archive_write_open_fd(archive_, fd));
}

Status Pack::leave_out_file(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("cannot look at the archive");
  own_file_ = HardLinks::id(info);
  return {};
}

Status Pack::contents(Fd directory, const std::string& prefix) {
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(directory), purpose_));
  const Pushed under_way(walks_, walk);
  for (;;) {
    TRY_ASSIGN(const auto next, walk.next());
    if (!next) return {};
    TRY(step(walk, *next, prefix + walk.path(*next)));
  }
}

Status Pack::step(const TreeWalk& walk, const WalkStep& step, const std::string& name) {
  if (step.kind == WalkStep::Kind::directory_end) return {};
  if (step.kind == WalkStep::Kind::fault)
    return entry_error(name, source_fault(step.fault, step.info));
  if (left_out_(name, step.info) || own_file_ == HardLinks::id(step.info)) return {};
  const SourceEntry source{step.dir_fd, step.name, O_NOFOLLOW};
  if (!S_ISLNK(step.info.st_mode)) return add(source, name, step.info);
  if (out_links_ != nullptr) {
    TRY_ASSIGN(const bool is_followed, follow_out(walk, step, name));
    if (is_followed) return {};
  }
  return link(source, name, step.info);
}

Status Pack::link(const SourceEntry& source, const std::string& name, const struct stat& info) {
  const auto text = read_link(source);
  if (!text) return entry_error(name, text.error());
  if (output_links_ == nullptr) return add(source, name, info, *text);
  const auto fate = output_links_->look(source, name);
  if (!fate)
    return entry_error(name, system_error("what it leads to cannot be read", fate.error().code));
  if (fate->action == LinkFate::Action::instead) return what_is_led_to(*fate, name);
  if (fate->action == LinkFate::Action::loop) report_.add_loop(name);
  if (fate->action == LinkFate::Action::staged) report_.add_staged(name);
  return add(source, name, info, fate->action == LinkFate::Action::other_text ? fate->text : *text);
}

Status Pack::what_is_led_to(const LinkFate& fate, const std::string& name) {
  const ResolvedPath& place = *fate.place;
  report_.add_followed(name, fate.share == Linked::all);
  TRY(add(place.entry(), name, place.info));
  if (!S_ISDIR(place.info.st_mode)) return {};
  if (depth_ >= k_most_links_to_directories) return entry_error(name, too_many_links());
  TRY_ASSIGN(Fd directory, place.open_directory());
  const LeftOut before = std::exchange(left_out_, output_links_->left_out(fate, name));
  ++depth_;
  Status added = contents(std::move(directory), name + "/");
  --depth_;
  left_out_ = before;
  return added;
}

// Returns whether what a link leads to was added in its place. A link back to a directory above it
// would never end.
Result<bool> Pack::follow_out(const TreeWalk& walk, const WalkStep& step, const std::string& name) {
  auto text = read_link({step.dir_fd, step.name, O_NOFOLLOW});
  if (!text) return entry_error(name, text.error());
  if (!leads_out(*text, walk.depth())) return false;
  Fd target;
  if (links_out_ == LinksOut::followed) {
    target = Fd(::openat(step.dir_fd, step.name.c_str(), O_PATH | O_CLOEXEC));
    if (!target && !leads_nowhere(errno)) return entry_error(name, system_error("cannot read"));
  }
  struct stat info {};
  const bool is_there = target && ::fstat(target.get(), &info) == 0;
  if (!is_there || (S_ISDIR(info.st_mode) && is_in_a_walk(info))) {
    out_links_->add_kept(name, *text);
    return false;
  }
  if (walks_.size() > k_max_followed_links) return entry_error(name, system_error("link", ELOOP));
  out_links_->add_followed();
  TRY(add_behind(std::move(target), step, name, info));
  return true;
}

bool Pack::is_in_a_walk(const struct stat& directory) const {
  return std::any_of(walks_.begin(), walks_.end(),
                     [&directory](const TreeWalk* walk) { return walk->is_in(directory); });
}

Status Pack::add_behind(Fd target, const WalkStep& link, const std::string& name,
                        const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    TRY(add({link.dir_fd, link.name, 0}, name, info));
    return S_ISDIR(info.st_mode) ? contents(std::move(target), name + "/") : Status();
  }
  const Entry entry = entry_of(name, info);
  if (!entry) return system_error(name, ENOMEM);
  const auto fd = open_at(link.dir_fd, link.name, k_open_source);
  if (!fd) return entry_error(name, system_error("cannot read", fd.error().code));
  struct stat now {};
  if (::fstat(fd->get(), &now) != 0 || now.st_ino != info.st_ino || now.st_dev != info.st_dev)
    return entry_error(name, system_error("cannot read", ESTALE));
  if (const Status written = add_data(entry.get(), fd->get(), name); !written)
    return entry_error(name, written.error());
  report_.add_file();
  return {};
}

Status Pack::entry(const SourceEntry& source, const std::string& name, const std::string& origin) {
  left_out_ = {&leaves_out_, origin};
  TRY_ASSIGN(Fd handle, open_beneath(source.dir_fd, source.path, O_PATH | source.follow));
  struct stat info {};
  if (::fstat(handle.get(), &info) != 0) return system_error(source.path);
  const bool is_left = left_out_(name, info);
  if (S_ISLNK(info.st_mode)) return is_left ? Status() : link(source, name, info);
  if (!is_left) TRY(add(source, name, info));
  return S_ISDIR(info.st_mode) ? contents(std::move(handle), name + "/") : Status();
}

// `link_text`: of a link.
Status Pack::add(const SourceEntry& source, const std::string& name, const struct stat& info,
                 const std::string& link_text) {
  const bool regular = S_ISREG(info.st_mode);
  const bool link = S_ISLNK(info.st_mode);
  if (!regular && !link && !S_ISDIR(info.st_mode)) {
    report_.add_special();
    return {};
  }
  const Entry entry = entry_of(name, info);
  if (!entry) return system_error(name, ENOMEM);
  if (link) ::archive_entry_copy_symlink(entry.get(), link_text.c_str());
  const Status written =
      regular ? add_file(entry.get(), source, name, info) : write_header(entry.get());
  if (!written) return entry_error(name, written.error());
  if (regular || link) report_.add_file();
  return {};
}

// Null: there is no memory.
Pack::Entry Pack::entry_of(const std::string& name, const struct stat& info) const {
  Entry entry(::archive_entry_new());
  if (!entry) return entry;
  ::archive_entry_copy_pathname(entry.get(), name.c_str());
  set_attributes(entry.get(), info);
  return entry;
}

void Pack::set_attributes(archive_entry* entry, const struct stat& info) const {
  ::archive_entry_copy_stat(entry, &info);
  ::archive_entry_copy_uname(entry, user_.c_str());
  if (stamp_) stamp(entry);
  if (!is_tar_) ::archive_entry_set_nlink(entry, 1);
}

void Pack::stamp(archive_entry* entry) const {
  ::archive_entry_set_uid(entry, 0);
  ::archive_entry_set_gid(entry, 0);
  ::archive_entry_set_uname(entry, nullptr);
  ::archive_entry_unset_atime(entry);
  ::archive_entry_unset_ctime(entry);
  ::archive_entry_unset_birthtime(entry);
  ::archive_entry_set_dev(entry, 0);
  ::archive_entry_set_ino(entry, 0);
  ::archive_entry_set_nlink(entry, 1);
  if (stamp_->mtime) ::archive_entry_set_mtime(entry, *stamp_->mtime, 0);
}

Status Pack::add_file(archive_entry* entry, const SourceEntry& source, const std::string& name,
                      const struct stat& info) {
  const auto first = is_tar_ ? links_.first(info, name) : std::nullopt;
  if (first) {
    ::archive_entry_copy_hardlink(entry, first->name.c_str());
    ::archive_entry_unset_size(entry);
    return write_header(entry);
  }
  if (purpose_ == WalkFor::reading) {
    const auto fd = open_for_reading(source, info);
    if (!fd) return source_fault(fd.error(), info);
    return add_data(entry, fd->get(), name);
  }
  const auto fd = open_beneath(source.dir_fd, source.path, k_open_source | source.follow);
  if (!fd) return system_error("cannot read", fd.error().code);
  return add_data(entry, fd->get(), name);
}

Status Pack::add_data(archive_entry* entry, int fd, const std::string& name) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("cannot read");
  set_attributes(entry, info);
  if (is_tar_ && info.st_blocks * 512 < info.st_size) TRY(map_holes(entry, fd, info));
  TRY(write_header(entry));
  TRY(read_data(fd, static_cast<std::uint64_t>(info.st_size), Then::write));
  if (has_held_still(fd, info, *settle_)) return {};
  struct stat now {};
  const bool has_grown = ::fstat(fd, &now) == 0 && now.st_size > info.st_size;
  if (growing_ == Growing::refused || !has_grown) return was_changed();
  if (growing_ == Growing::kept_if_same) {
    const std::uint64_t sum = sum_;
    TRY(read_data(fd, static_cast<std::uint64_t>(info.st_size), Then::forget));
    if (sum != sum_) return was_changed();
  }
  report_.add_growing(name);
  return {};
}

Status Pack::write_header(archive_entry* entry) {
  // A zip has a name's bytes as they are, as Info-ZIP writes it; so has pax, which says so itself.
  const bool is_bare = !is_tar_ && !is_utf8(::archive_entry_pathname(entry));
  const NameLocale locale(is_bare ? NameLocale::Charset::none : NameLocale::Charset::utf8);
  return fault(::archive_write_header(archive_, entry));
}

// Holes are passed as the zeros that they read as; libarchive drops them by the entry's map.
Status Pack::read_data(int fd, std::uint64_t size, Then then) {
  sum_ = fnv1a("");
  for (std::uint64_t offset = 0; offset < size;) {
    const auto count = pread_all(fd,
                                 std::as_writable_bytes(std::span(block_))
                                     .first(std::min<std::uint64_t>(size - offset, block_.size())),
                                 offset);
    if (!count) return system_error("cannot read", count.error().code);
    if (*count == 0) return was_changed();  // it became shorter
    offset += *count;
    const std::string_view data = std::string_view(block_).substr(0, *count);
    if (growing_ == Growing::kept_if_same) sum_ = fnv1a(data, sum_);
    if (then == Then::write) TRY(write_data(data));
  }
  return {};
}

Status Pack::write_data(std::string_view data) {
  const std::size_t bytes = data.size();
  while (!data.empty()) {
    const la_ssize_t taken = ::archive_write_data(archive_, data.data(), data.size());
    if (taken < 0) return fault(static_cast<int>(taken));
    if (taken == 0) return Error{EIO, "no more data can be written to the archive"};
    data.remove_prefix(static_cast<std::size_t>(taken));
  }
  report_.add_read(bytes);
  count_written();
  return {};
}

Status Pack::finish() {
  TRY(fault(::archive_write_close(archive_)));
  count_written();
  return {};
}

Status Pack::fault(int code) const {
  if (code >= ARCHIVE_WARN) return {};  // a warning: an odd name is kept as its bytes
  const char* what = ::archive_error_string(archive_);
  const int cause = ::archive_errno(archive_);
  if (cause > 0) return system_error("cannot write the archive", cause);
  return Error{EIO, "cannot write the archive" + (what != nullptr ? std::string(": ") + what : "")};
}

void Pack::count_written() {
  report_.set_written(static_cast<std::uint64_t>(::archive_filter_bytes(archive_, -1)));
}

}  // namespace nodestage
