#include "daemon/root/cache/cache_area.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "common/os/child.hpp"
#include "common/os/permissions.hpp"
#include "common/os/wall_clock.hpp"
#include "common/text/encodings.hpp"
#include "common/text/json_fields.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {

// Calls field(name, member) for each member, for both directions. "name" is that of the directory:
// in records of earlier releases it was the entry's, too.
static void each_field(Is<CacheEntry> auto& entry, auto field) {
  field("name", entry.directory);
  field("uid", entry.uid);
  field("gid", entry.gid);
  field("user", entry.user);
  field("tree", entry.tree);
  field("what", entry.what);
  field("source", entry.source);
  field("source_bytes", entry.source_bytes);
  field("bytes", entry.bytes);
  field("files", entry.files);
  field("job", entry.made_by.job);
  field("restart", entry.made_by.restart);
  field("made_at", entry.made_at);
  field("boot", entry.boot);
  field("changed_s", entry.changed.seconds);
  field("changed_ns", entry.changed.nanoseconds);
  field("for_readers", entry.for_readers);
  field("made_for", entry.made_for);
  field("array_job", entry.array_job);
  field("array_task", entry.array_task);
  field("het_job", entry.het_job);
}

namespace {

constexpr int k_record_version = 1;

bool is_key(std::string_view text) {
  return text.size() == k_share_key_bytes &&
         text.find_first_not_of(k_hex_digits) == std::string_view::npos;
}

}  // namespace

std::optional<ChangeTime> parse_change_time(std::string_view text) {
  const auto seconds = take_number<std::int64_t>(text);
  if (!seconds || !text.starts_with('.')) return {};
  text.remove_prefix(1);
  const auto nanoseconds = take_number<std::uint32_t>(text);
  if (!nanoseconds || !text.empty()) return {};
  return ChangeTime{*seconds, *nanoseconds};
}

std::string entry_name(std::uint32_t uid, std::string_view key) {
  return is_key(key) ? std::to_string(uid) + "." + std::string(key) : std::string();
}

Result<std::string> new_entry_directory(std::uint32_t uid) {
  std::array<unsigned char, k_share_key_bytes / 2> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return system_error("getrandom");
  return std::to_string(uid) + "." + hex_digits(random);
}

bool is_tree_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string encode_entry(const CacheEntry& entry) {
  auto json = to_json_record(entry);
  json["version"] = k_record_version;
  json["entry"] = entry.name;
  return json.dump(1);
}

Result<CacheEntry> decode_entry(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{EINVAL, "is not JSON"};
  JsonFields fields(json);
  int version = 0;
  fields.read("version", version);
  if (fields.status() && version != k_record_version) return Error{EINVAL, "is of another version"};
  CacheEntry entry;
  // What a record of an earlier release lacks must not cost what it keeps.
  fields.read_record(entry, [](std::string_view field) {
    return field != "for_readers" && field != "made_for" && !field.ends_with("_job") &&
           field != "array_task";
  });
  entry.name = entry.directory;
  if (fields.has("entry")) fields.read("entry", entry.name);
  TRY(fields.status());
  if (!is_tree_name(entry.tree)) return Error{EINVAL, "names no tree"};
  return entry;
}

namespace {

constexpr const char* k_record = ".record";
constexpr const char* k_draft = ".draft";
constexpr const char* k_work = ".work";
constexpr std::size_t k_max_record = 64 * 1024;
constexpr mode_t k_write_bits = 0222;

// Returns the entry that a name in the cache belongs to, a directory's or a record's.
std::string entry_of(std::string_view name) {
  for (const std::string_view suffix : {std::string_view(k_record), std::string_view(k_draft)})
    if (name.ends_with(suffix)) return std::string(name.substr(0, name.size() - suffix.size()));
  return std::string(name);
}

// Never of what a user has mounted there, which may not answer.
Result<struct stat> look(int dir_fd, const std::string& name) {
  TRY_ASSIGN(const Fd found, open_beneath(dir_fd, name, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_XDEV));
  struct stat info {};
  if (::fstat(found.get(), &info) != 0) return system_error(name);
  return info;
}

}  // namespace

std::string CacheArea::this_boot() { return boot_id(); }

std::string CacheArea::path_of(const CacheEntry& entry) const {
  return areas_.cache_path() + "/" + entry.directory + "/" + entry.tree;
}

std::optional<CacheEntry> CacheArea::read(const std::string& name, const char* suffix) const {
  const auto text = read_file(areas_.cache_fd(), name + suffix, k_max_record);
  if (!text) return {};
  auto entry = decode_entry(*text);
  if (!entry || entry->directory != name) return {};
  return std::move(*entry);
}

std::vector<CacheEntry> CacheArea::load() {
  std::set<std::string> names;
  auto stream = DirectoryStream::at(areas_.cache_fd());
  while (const auto name = stream.next()) names.insert(entry_of(*name));
  std::vector<CacheEntry> entries;
  for (const std::string& name : names)
    if (auto entry = load_entry(name)) entries.push_back(std::move(*entry));
  return entries;
}

// Without a boot id of its own, nothing of the last daemon counts.
std::optional<CacheEntry> CacheArea::load_entry(const std::string& name) {
  auto entry = read(name, k_record);
  const bool is_draft = !entry;
  if (is_draft) entry = read(name, k_draft);
  const auto directory = open_at(areas_.cache_fd(), name, k_directory);
  const bool is_ours = entry && directory && !boot_.empty() && entry->boot == boot_;
  // Jobs may use it. If its user has changed it, it is dropped when they have ended.
  const WriteBits bits = is_draft ? WriteBits::refused : WriteBits::ignored;
  const auto changed =
      is_ours ? look_at_tree(directory->get(), *entry, bits) : Result<ChangeTime>(Error{});
  if (changed) {
    if (is_draft) {
      entry->changed = *changed;
      finish(*entry);
    }
    struct stat info {};
    if (::fstat(directory->get(), &info) == 0)
      entry->used_at = static_cast<std::uint64_t>(info.st_mtim.tv_sec);
    return entry;
  }
  CacheEntry rest = entry.value_or(CacheEntry{});
  rest.directory = name;
  struct stat of_keeper {};
  if (directory && name.ends_with(k_work) && ::fstat(directory->get(), &of_keeper) == 0) {
    rest.uid = of_keeper.st_uid;
    rest.gid = of_keeper.st_gid;
  } else if (!entry && directory) {
    rest.tree = only_name(directory->get());
    if (const auto info = look(directory->get(), rest.tree)) {
      rest.uid = info->st_uid;
      rest.gid = info->st_gid;
    }
  }
  if (const Status gone = discard(rest); !gone)
    log::error("the cache's entry {} cannot be removed: {}", name, gone.error().what);
  return {};
}

// Refuses a tree that is not the user's, in place and without write bits.
Result<ChangeTime> CacheArea::look_at_tree(int dir_fd, const CacheEntry& entry,
                                           WriteBits bits) const {
  TRY_ASSIGN(const struct stat info, look(dir_fd, entry.tree));
  struct stat area {};
  if (::fstat(areas_.cache_fd(), &area) != 0) return system_error(areas_.cache_path());
  const bool is_right = (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode)) &&
                        info.st_uid == entry.uid && info.st_dev == area.st_dev &&
                        (bits == WriteBits::ignored || (info.st_mode & k_write_bits) == 0);
  if (!is_right) return Error{EPERM, entry.tree + ": is not what was staged"};
  return ChangeTime{info.st_ctim.tv_sec, static_cast<std::uint32_t>(info.st_ctim.tv_nsec)};
}

Status CacheArea::reserve(CacheEntry entry) {
  if (boot_.empty()) return Error{EINVAL, "this kernel has no boot id"};
  TRY(discard(entry));
  entry.boot = boot_;
  Status made = replace_file_unsynced(areas_.cache_fd(), entry.directory + k_draft,
                                      encode_entry(entry), 0600);
  if (made) made = make(entry);
  if (!made) static_cast<void>(!discard(entry));
  return made;
}

Status CacheArea::make(const CacheEntry& entry) const {
  const mode_t mode = entry.for_readers ? 0700 : 0711;
  if (::mkdirat(areas_.cache_fd(), entry.directory.c_str(), mode) != 0)
    return system_error(entry.directory);
  TRY_ASSIGN(const Fd directory, open_at(areas_.cache_fd(), entry.directory, k_directory));
  if (::fchmod(directory.get(), mode) != 0 ||
      ::symlinkat(path_of(entry).c_str(), directory.get(), entry.tree.c_str()) != 0 ||
      ::fchownat(directory.get(), entry.tree.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW) !=
          0)
    return system_error(entry.directory);
  return {};
}

Status CacheArea::publish(CacheEntry& entry, int job_fd, const std::string& destination) {
  entry.boot = boot_;
  entry.made_at = wall_s();
  // A daemon that was started since then has removed what was reserved.
  const bool is_reserved = read(entry.directory, k_draft).has_value();
  Status done = is_reserved ? Status() : reserve(entry);
  if (done) done = exchange(entry, job_fd, destination);
  if (!done) {
    static_cast<void>(!discard(entry));
    return done;
  }
  const auto directory = open_at(areas_.cache_fd(), entry.directory, k_directory);
  const auto changed =
      directory ? look_at_tree(directory->get(), entry) : Result<ChangeTime>(directory.error());
  if (!changed) {
    static_cast<void>(!discard(entry));
    return changed.error();
  }
  entry.changed = *changed;
  entry.used_at = entry.made_at;
  finish(entry);
  return {};
}

Status CacheArea::exchange(const CacheEntry& entry, int job_fd,
                           const std::string& destination) const {
  const std::size_t slash = destination.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : destination.substr(0, slash);
  const std::string last = slash == std::string::npos ? destination : destination.substr(slash + 1);
  const bool is_aside = destination.starts_with(k_kept_prefix);
  const auto claimed = std::string_view(destination).substr(is_aside ? k_kept_prefix.size() : 0);
  if (!is_path_below(claimed) || last != entry.tree)
    return Error{EPERM, "its destination is not valid"};
  TRY_ASSIGN(const Fd from,
             open_beneath(job_fd, parent, k_directory, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV));
  TRY_ASSIGN(const Fd to, open_at(areas_.cache_fd(), entry.directory, k_directory));
  struct stat link {};
  if (::fstatat(to.get(), entry.tree.c_str(), &link, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISLNK(link.st_mode))
    return Error{EEXIST, "its entry is not reserved"};
  return areas_.exchange(from.get(), last, to.get(), path_of(entry), entry.uid);
}

// Where the disk has no room for the record, the draft takes its place: its tree counts, and will
// be dropped when it is compared.
void CacheArea::finish(CacheEntry& entry) const {
  const std::string record = entry.directory + k_record;
  const std::string draft = entry.directory + k_draft;
  const Status written =
      entry.changed == ChangeTime{}
          ? Status(Error{ENOENT, "the time of its last change is not known"})
          : replace_file_unsynced(areas_.cache_fd(), record, encode_entry(entry), 0600);
  if (written) return remove_file(draft);
  entry.changed = {};
  if (::renameat(areas_.cache_fd(), draft.c_str(), areas_.cache_fd(), record.c_str()) != 0)
    log::error("the record of the cache's entry {} cannot be written: {}", entry.directory,
               written.error().what);
}

void CacheArea::remove_file(const std::string& name) const {
  ::unlinkat(areas_.cache_fd(), name.c_str(), 0);
}

Status CacheArea::discard(const CacheEntry& entry) {
  remove_file(entry.directory + k_record);
  const auto directory = open_at(areas_.cache_fd(), entry.directory, k_directory);
  // Something that is not a directory is none of ours.
  if (!directory && directory.error().code != ENOENT &&
      ::unlinkat(areas_.cache_fd(), entry.directory.c_str(), 0) != 0)
    return directory.error();
  if (directory) TRY(discard_directory(directory->get(), entry));
  remove_file(entry.directory + k_draft);
  return {};
}

// A directory in which nothing was staged is removed at once. Otherwise the tree goes to the trash
// in its directory, which is root's: no user can mount anything over that, and what is mounted
// below does not keep it from being moved. In the trash, it becomes the user's, who removes it.
Status CacheArea::discard_directory(int directory_fd, const CacheEntry& entry) {
  const auto tree =
      entry.tree.empty() ? Result<struct stat>(Error{ENOENT, ""}) : look(directory_fd, entry.tree);
  if (tree && S_ISLNK(tree->st_mode)) ::unlinkat(directory_fd, entry.tree.c_str(), 0);
  if (::unlinkat(areas_.cache_fd(), entry.directory.c_str(), AT_REMOVEDIR) == 0) return {};
  TRY(areas_.move_to_trash(areas_.cache_fd(), entry.directory, entry.uid, entry.gid));
  if (::fchown(directory_fd, entry.uid, entry.gid) != 0) return system_error(entry.directory);
  return {};
}

std::string CacheArea::work_path(const CacheEntry& entry) const {
  return areas_.cache_path() + "/" + entry.directory + k_work;
}

// In the cache, where root alone makes names.
Result<Fd> CacheArea::make_work(const CacheEntry& entry) const {
  const std::string name = entry.directory + k_work;
  if (::mkdirat(areas_.cache_fd(), name.c_str(), 0700) != 0) return system_error(name);
  TRY_ASSIGN(Fd made, open_at(areas_.cache_fd(), name, k_directory));
  if (::fchown(made.get(), entry.uid, entry.gid) != 0) return system_error(name);
  return made;
}

Result<Fd> CacheArea::open_work(const CacheEntry& entry) const {
  return open_at(areas_.cache_fd(), entry.directory + k_work, k_directory);
}

void CacheArea::remove_work(const CacheEntry& entry) const {
  const std::string name = entry.directory + k_work;
  if (::unlinkat(areas_.cache_fd(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return;
  const Status moved = areas_.move_to_trash(areas_.cache_fd(), name, entry.uid, entry.gid);
  if (!moved) log::error("{} cannot be removed: {}", work_path(entry), moved.error().what);
}

Status CacheArea::let_in(const CacheEntry& entry, const std::set<std::uint32_t>& uids) const {
  TRY_ASSIGN(const Fd directory, open_at(areas_.cache_fd(), entry.directory, k_directory));
  return nodestage::let_in(directory.get(), uids);
}

Result<Fd> CacheArea::open_tree(const CacheEntry& entry) const {
  return open_beneath(areas_.cache_fd(), entry.directory + "/" + entry.tree,
                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

void CacheArea::touch(const CacheEntry& entry) const {
  ::utimensat(areas_.cache_fd(), entry.directory.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

}  // namespace nodestage
