#include "daemon/worker/archive/zip_index.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/gzip/inflater.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view k_record = "PK\1\2"sv;
constexpr std::uint32_t k_in_wide_field = 0xffffffff;

enum System : std::uint8_t { msdos = 0, unix_like = 3, macos = 19 };

// In the process's time zone, which mktime() looks up. The last answer is kept, since a tree's
// files often have the same time.
std::int64_t time_of_dos(std::uint32_t dos_time) {
  thread_local std::uint32_t last = 0;
  thread_local std::int64_t last_time = -1;
  if (last == dos_time && last != 0) return last_time;
  tm parts{};
  parts.tm_year = static_cast<int>(dos_time >> 25) + 80;
  parts.tm_mon = static_cast<int>(dos_time >> 21 & 15) - 1;
  parts.tm_mday = static_cast<int>(dos_time >> 16 & 31);
  parts.tm_hour = static_cast<int>(dos_time >> 11 & 31);
  parts.tm_min = static_cast<int>(dos_time >> 5 & 63);
  parts.tm_sec = static_cast<int>(dos_time & 31) * 2;
  parts.tm_isdst = -1;
  last = dos_time;
  return last_time = std::mktime(&parts);
}

bool has_dos_year_2038(std::uint32_t dos_time) { return (dos_time >> 25) + 1980 >= 2038; }

}  // namespace

std::optional<std::string_view> find_extra(std::string_view extra, std::uint16_t id) {
  while (extra.size() >= 4) {
    const std::string_view field = extra.substr(4, little_endian<std::uint16_t>(extra, 2));
    if (little_endian<std::uint16_t>(extra, 0) == id) return field;
    extra.remove_prefix(4 + field.size());
  }
  return std::nullopt;
}

bool widen(std::string_view field, std::initializer_list<std::uint64_t*> numbers) {
  for (std::uint64_t* number : numbers) {
    if (*number != k_in_wide_field) continue;
    if (field.size() < 8) return false;
    *number = little_endian<std::uint64_t>(field, 0);
    field.remove_prefix(8);
  }
  return true;
}

std::optional<ZipRecord> ZipRecord::parse(std::string_view data) {
  if (data.size() < k_bytes || !data.starts_with(k_record)) return std::nullopt;
  const std::size_t name_size = little_endian<std::uint16_t>(data, 28);
  const std::size_t extra_size = little_endian<std::uint16_t>(data, 30);
  ZipRecord record;
  record.whole = static_cast<std::uint32_t>(k_bytes + name_size + extra_size +
                                            little_endian<std::uint16_t>(data, 32));
  if (record.whole > data.size()) return std::nullopt;
  record.system = little_endian<std::uint8_t>(data, 5);
  record.flags = little_endian<std::uint16_t>(data, 8);
  record.method = little_endian<std::uint16_t>(data, 10);
  record.dos_time = little_endian<std::uint32_t>(data, 12);
  record.crc = little_endian<std::uint32_t>(data, 16);
  record.packed = little_endian<std::uint32_t>(data, 20);
  record.size = little_endian<std::uint32_t>(data, 24);
  record.attributes = little_endian<std::uint32_t>(data, 38);
  record.offset = little_endian<std::uint32_t>(data, 42);
  record.disk = little_endian<std::uint16_t>(data, 34);
  record.raw_name = data.substr(k_bytes, name_size);
  record.extra = data.substr(k_bytes + name_size, extra_size);
  if (record.size == k_in_wide_field || record.packed == k_in_wide_field ||
      record.offset == k_in_wide_field) {
    const auto field = find_extra(record.extra, 1);
    record.has_wide_fault = field && !widen(*field, {&record.size, &record.packed, &record.offset});
  }
  return record;
}

// Accepts stored, deflated, bzip2, LZMA, zstd, xz, PPMd. AES (99) has a password.
Status ZipRecord::check_readable() const {
  if ((flags & (encrypted | strong)) != 0) return password_fault();
  static constexpr std::uint16_t k_known[] = {0, 8, 12, 14, 93, 95, 98};
  if (std::find(std::begin(k_known), std::end(k_known), method) != std::end(k_known)) return {};
  const std::string_view where = method == deflated64 ? " (Deflate64) among others" : "";
  return fault(0,
               "is compressed with method " + std::to_string(method) + std::string(where) +
                   ", which nodestage cannot read",
               "Pack the data again: nodestage pack DIRECTORY");
}

std::string ZipRecord::name() const {
  std::string_view name = raw_name;
  const auto in_utf8 = find_extra(extra, 0x7075);
  if (in_utf8 && in_utf8->size() > 5) {
    const std::uint32_t name_crc = crc32_of(std::as_bytes(std::span(raw_name)));
    if (little_endian<std::uint32_t>(*in_utf8, 1) == name_crc) name = in_utf8->substr(5);
  }
  std::string text(name);
  if (system == msdos && text.find('/') == std::string::npos) {
    std::replace(text.begin(), text.end(), '\\', '/');
  }
  return text;
}

std::uint32_t ZipRecord::unix_mode() const {
  if (system == unix_like || system == macos) return attributes >> 16;
  if (system != msdos) return 0;
  constexpr std::uint32_t k_read_only = 1;
  constexpr std::uint32_t k_directory = 16;
  const std::uint32_t mode = (attributes & k_directory) != 0 ? S_IFDIR | 0775 : S_IFREG | 0664;
  return (attributes & k_read_only) != 0 ? mode & (S_IFDIR | 0555) : mode;
}

// Seconds are signed, but a DOS time after 2038 shows that they wrapped around.
std::optional<std::int64_t> ZipRecord::unix_time() const {
  std::optional<std::uint32_t> seconds;
  if (const auto times = find_extra(extra, 0x5855); times && times->size() >= 8) {
    seconds = little_endian<std::uint32_t>(*times, 4);
  }
  if (const auto times = find_extra(extra, 0x5455);
      times && times->size() >= 5 && (little_endian<std::uint8_t>(*times, 0) & 1U) != 0) {
    seconds = little_endian<std::uint32_t>(*times, 1);
  }
  if (!seconds) return std::nullopt;
  if (has_dos_year_2038(dos_time)) return *seconds;
  return static_cast<std::int32_t>(*seconds);
}

Entry ZipRecord::entry() const {
  Entry entry;
  entry.name = name();
  std::uint32_t mode = unix_mode();
  if (mode == 0) mode = 0664;
  if (entry.name.ends_with('/') && !S_ISDIR(mode)) mode = S_IFDIR | (mode & 07777) | 0111;
  entry.mode = mode & 07777;
  entry.mtime = timespec{unix_time().value_or(0), 0};
  if (!unix_time()) entry.mtime = timespec{time_of_dos(dos_time), 0};
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG:
    case S_IFIFO:
      entry.kind = Entry::Kind::file;
      entry.size = size;
      break;
    case S_IFDIR:
      entry.kind = Entry::Kind::directory;
      break;
    case S_IFLNK:
      entry.kind = Entry::Kind::symlink;
      break;
    default:
      entry.kind = Entry::Kind::other;
  }
  return entry;
}

namespace {

constexpr std::string_view k_end = "PK\5\6"sv;
constexpr std::size_t k_end_bytes = 22;
constexpr std::size_t k_wide_end_bytes = 56;
constexpr std::size_t k_locator_bytes = 20;
constexpr std::size_t k_max_comment = 65535;
constexpr std::uint64_t k_max_directory = 1ULL << 30;

// The directory as the end record describes it.
struct Directory {
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;      // where the end record, or that of zip64, begins
  std::uint64_t members = 0;  // as recorded; without zip64, the last 16 bits of their number
  std::uint64_t shift = 0;    // add it to all offsets
  bool has_junk = false;      // after its end
  bool is_split = false;      // by zip itself
};

struct End {
  std::size_t at;
  bool has_junk;
};

Error truncated(const Source& source) {
  return fault(
      0,
      shown(source.path()) + ": cut off at " + human_bytes(source.size()) +
          ": the zip archive has no complete directory at its end",
      "Was its creation or transfer stopped, by a quota or a time limit? Test it with: unzip -t " +
          shell_word(shown(source.path())));
}

Error in_parts(const Source& source) {
  std::string first = source.path();
  if (has_suffix(first, ".zip")) first.replace(first.size() - 2, 2, "01");
  return fault(0, shown(source.path()) + ": is one part of a zip archive in several files",
               how_to_stage_parts(first));
}

// "z.z03" of "z.zip"; "" if that has another name.
std::string numbered_part(const Source& source, std::uint64_t number) {
  const std::string& whole = source.path();
  if (!has_suffix(whole, ".zip")) return {};
  const std::string digits = std::to_string(number);
  return whole.substr(0, whole.size() - 2) + (digits.size() < 2 ? "0" : "") + digits;
}

// "z.z03", or "z.z03 to z.z05".
std::string from_to(const std::string& first, const std::string& last) {
  return shown(last_part(first)) + (first == last ? "" : " to " + shown(last_part(last)));
}

// The last disk is the last part, or some are missing, or too many. Without the first one of the
// others beside it, the last part is all there is.
Status check_disks(const Source& source, std::uint64_t last) {
  const auto& parts = source.parts();
  if (source.is_joined() && last == parts.size() - 1) return {};
  const std::string first = numbered_part(source, 1);
  if (first.empty() || (!source.is_joined() && ::access(first.c_str(), F_OK) == 0))
    return in_parts(source);
  const std::string count = human_count(last + 1) + " files, and ";
  if (!source.is_joined())
    return fault(0,
                 shown(source.path()) + ": is one part of a zip archive in " + count +
                     "only this one is here",
                 "Transfer " + from_to(first, numbered_part(source, last)) +
                     " to its directory, too, and join all with the key join");
  const std::string what = shown(source.path()) + ": zip has split it into " + count +
                           human_count(parts.size()) + " are here";
  if (last >= parts.size())
    return fault(ENOENT, what,
                 "Transfer " +
                     from_to(numbered_part(source, parts.size()), numbered_part(source, last)) +
                     ", too, or write a glob that matches it");
  return fault(EINVAL, what,
               from_to(parts[last].path, parts[parts.size() - 2].path) +
                   " are of another archive, or of an earlier one of the same name: remove them, "
                   "or write a glob that leaves them out");
}

// Where an offset in a disk is in the whole; beyond its end if there is no such place.
std::uint64_t place_in_whole(const Source& source, std::uint64_t disk, std::uint64_t offset) {
  const auto& parts = source.parts();
  if (disk >= parts.size() || offset > parts[disk].size()) return source.size() + 1;
  return parts[disk].begin + offset;
}

Result<std::string> exact_text(const Source& source, std::uint64_t offset, std::uint64_t size) {
  if (offset > source.size() || size > source.size() - offset || size > k_max_directory) {
    return truncated(source);
  }
  TRY_ASSIGN(std::string text, source.text_at(offset, size));
  if (text.size() < size) return truncated(source);
  return text;
}

Result<bool> starts_at(const Source& source, std::uint64_t offset, std::string_view magic) {
  if (source.size() < magic.size() || offset > source.size() - magic.size()) return false;
  TRY_ASSIGN(const std::string start, exact_text(source, offset, magic.size()));
  return start == magic;
}

// The zip64 end record: where its locator points or, behind a self-extractor, right before it.
Result<Directory> wide_directory(const Source& source, std::string_view locator,
                                 std::uint64_t locator_at) {
  const auto stated = little_endian<std::uint64_t>(locator, 8);
  const std::uint64_t in_whole =
      source.is_joined() ? place_in_whole(source, little_endian<std::uint32_t>(locator, 4), stated)
                         : stated;
  for (const std::uint64_t at : {in_whole, stated, locator_at - k_wide_end_bytes}) {
    if (at > locator_at || locator_at - at < k_wide_end_bytes) continue;
    TRY_ASSIGN(const std::string wide, exact_text(source, at, k_wide_end_bytes));
    if (!wide.starts_with("PK\6\6"sv)) continue;
    const std::uint64_t offset = little_endian<std::uint64_t>(wide, 48);
    Directory directory{little_endian<std::uint64_t>(wide, 40), offset, at,
                        little_endian<std::uint64_t>(wide, 32)};
    if (const auto disk = little_endian<std::uint32_t>(wide, 16); disk != 0) {
      TRY(check_disks(source, disk));
      directory.offset = place_in_whole(source, little_endian<std::uint32_t>(wide, 20), offset);
      directory.is_split = true;
    }
    return directory;
  }
  return truncated(source);
}

// Whether the directory that the end record describes exists and ends right before it: if so, what
// looks like a record of zip64 there is part of a name.
Result<bool> ends_at(const Source& source, std::string_view end, std::uint64_t at) {
  const std::uint64_t size = little_endian<std::uint32_t>(end, 12);
  if (size == 0 || size > at || little_endian<std::uint32_t>(end, 16) != at - size) return false;
  return starts_at(source, at - size, k_record);
}

// The comment, whose length is the last field, should reach to the file's end or to zeros that do
// (bsdtar writes them to a pipe).
std::optional<End> find_end(std::string_view tail) {
  const auto follows = [tail](std::size_t at) -> std::optional<std::string_view> {
    if (at + k_end_bytes > tail.size()) return std::nullopt;
    const std::size_t end = at + k_end_bytes + little_endian<std::uint16_t>(tail, at + 20);
    return end <= tail.size() ? std::optional(tail.substr(end)) : std::nullopt;
  };
  constexpr auto k_none = std::string_view::npos;
  std::optional<End> last;
  for (auto at = tail.rfind(k_end); at != k_none;
       at = at == 0 ? k_none : tail.rfind(k_end, at - 1)) {
    const auto rest = follows(at);
    if (rest && rest->empty()) return End{at, false};
    if (rest && !last) last = End{at, true};
  }
  for (auto at = tail.find(k_end); at != k_none; at = tail.find(k_end, at + 1)) {
    const auto rest = follows(at);
    if (rest && rest->find_first_not_of('\0') == k_none) return End{at, false};
  }
  return last;
}

// The end of the file, which may contain the end record.
Result<std::string> read_tail(const Source& source) {
  const std::uint64_t size = std::min<std::uint64_t>(source.size(), k_end_bytes + k_max_comment);
  return exact_text(source, source.size() - size, size);
}

Result<Directory> stated_directory(const Source& source) {
  TRY_ASSIGN(const std::string data, read_tail(source));
  const std::uint64_t tail_at = source.size() - data.size();
  const std::string_view tail = data;
  const auto found = find_end(tail);
  if (!found) {
    TRY_ASSIGN(const bool is_first_part, starts_at(source, 0, "PK\7\10"sv));
    return is_first_part ? in_parts(source) : truncated(source);
  }
  const std::size_t end = found->at;
  Directory directory;
  TRY_ASSIGN(const bool is_narrow, ends_at(source, tail.substr(end), tail_at + end));
  if (!is_narrow && end >= k_locator_bytes &&
      tail.substr(end - k_locator_bytes).starts_with("PK\6\7"sv)) {
    const std::string_view locator = tail.substr(end - k_locator_bytes);
    TRY_ASSIGN(directory, wide_directory(source, locator, tail_at + end - k_locator_bytes));
  } else {
    const std::uint64_t offset = little_endian<std::uint32_t>(tail, end + 16);
    directory = {little_endian<std::uint32_t>(tail, end + 12), offset, tail_at + end,
                 little_endian<std::uint16_t>(tail, end + 10)};
    if (const auto disk = little_endian<std::uint16_t>(tail, end + 4); disk != 0) {
      TRY(check_disks(source, disk));
      directory.offset =
          place_in_whole(source, little_endian<std::uint16_t>(tail, end + 6), offset);
      directory.is_split = true;
    }
  }
  directory.has_junk = found->has_junk;
  return directory;
}

// Right before the end record, or else at the recorded offset. If the two differ, data precede the
// archive: perhaps another zip, which can have its own directory at that offset. Not if data follow
// it, too: that is how a cut-off zip within a zip looks.
Result<Directory> find_directory(const Source& source) {
  TRY_ASSIGN(Directory directory, stated_directory(source));
  const bool has_outer = directory.has_junk && directory.end > 0;
  if (directory.size == 0 && !has_outer) return directory;
  if (directory.size == 0 || directory.size > directory.end) return truncated(source);
  const std::uint64_t latest = directory.end - directory.size;
  if (directory.offset <= latest) {
    TRY_ASSIGN(const bool is_last, starts_at(source, latest, k_record));
    if (is_last && !directory.has_junk && (!directory.is_split || directory.offset == latest)) {
      directory.shift = latest - directory.offset;
      return directory;
    }
    TRY_ASSIGN(const bool is_there, starts_at(source, directory.offset, k_record));
    if (is_there) return directory;
  }
  return truncated(source);
}

// Data may precede the first member, but not a whole zip, as with `cat a.zip b.zip`.
Status check_alone(const Source& source, std::uint64_t first) {
  const std::uint64_t size = std::min<std::uint64_t>(first, k_end_bytes + k_max_comment);
  TRY_ASSIGN(const std::string before, exact_text(source, first - size, size));
  const auto end = find_end(before);
  if (!end || end->has_junk) return {};
  return fault(0, shown(source.path()) + ": two or more zip archives, one after another",
               "A zip lists its members at its end, so only those of the last one would be there. "
               "Stage them as files of their own: tail -c +" +
                   std::to_string(first + 1) + " " + shell_word(shown(source.path())) +
                   " > LAST.zip");
}

bool is_plain_member(const ZipRecord& record) {
  constexpr unsigned k_odd =
      ZipRecord::encrypted | ZipRecord::patched | ZipRecord::strong | ZipRecord::masked;
  if ((record.flags & k_odd) != 0) return false;
  return record.method == ZipRecord::deflated || record.method == ZipRecord::deflated64 ||
         record.method == ZipRecord::stored;
}

}  // namespace

Error damaged_zip(const Source& source, const std::string& cause) {
  return fault(
      0, shown(source.path()) + ": damaged or cut off: " + cause,
      "Make or transfer it again. Test it with: unzip -t " + shell_word(shown(source.path())));
}

ZipRecord ZipIndex::record(std::size_t member) const {
  ZipRecord record = ZipRecord::parse(text().substr(places_[member].record)).value_or(ZipRecord());
  record.offset = places_[member].offset;
  return record;
}

Status ZipIndex::list_members(const Source& source, std::uint64_t shift) {
  std::string_view rest = text();
  while (auto record = ZipRecord::parse(rest)) {
    if (record->has_wide_fault) {
      return damaged_zip(source, "entry '" + shown(record->name()) + "' has no 64-bit size");
    }
    if (is_split_) TRY(move_to_disk(source, *record));
    places_.push_back(
        {record->offset + shift, static_cast<std::uint32_t>(text().size() - rest.size())});
    total_size_ = more(total_size_, record->size);
    is_plain_ = is_plain_ && is_plain_member(*record);
    rest.remove_prefix(record->whole);
  }
  if (!rest.empty() && !rest.starts_with("PK\5\5"sv)) return truncated(source);
  const auto by_offset = [](const Place& a, const Place& b) { return a.offset < b.offset; };
  if (!std::is_sorted(places_.begin(), places_.end(), by_offset)) {
    std::sort(places_.begin(), places_.end(), by_offset);
  }
  return {};
}

Status ZipIndex::move_to_disk(const Source& source, ZipRecord& record) const {
  record.offset = place_in_whole(source, record.disk, record.offset);
  if (record.offset <= directory_offset_) return {};
  return damaged_zip(source, "entry '" + shown(record.name()) + "' begins in no part of it");
}

// The local header repeats the name. The length of its extra fields is not known here, so the
// reader checks again.
Status ZipIndex::check_places(const Source& source) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ZipRecord record = this->record(i);
    const std::uint64_t room = end(i) - std::min(end(i), offset(i));
    const std::uint64_t header = k_local_bytes + record.raw_name.size();
    if (room >= header && room - header >= record.packed) continue;
    const std::string other = i + 1 < places_.size()
                                  ? "entry '" + shown(this->record(i + 1).name()) + "'"
                                  : "the archive's directory";
    return damaged_zip(source, "entry '" + shown(record.name()) + "' overlaps " + other);
  }
  return {};
}

// Of any other zip, a file data.pkl says nothing. PyTorch adds its version.
bool ZipIndex::has_checkpoint(bool pickle_says_it) const {
  bool has_pickle = false;
  bool has_version = pickle_says_it;
  for (std::size_t i = 0; i < size() && !(has_pickle && has_version); ++i) {
    const std::string name = record(i).name();
    const std::string below = name.substr(name.find('/') + 1);
    has_pickle = has_pickle || below == "data.pkl";
    has_version = has_version || below == "version" || below == ".data/version";
  }
  return has_pickle && has_version;
}

Result<bool> has_zip_end(const Source& source) {
  TRY_ASSIGN(const std::string tail, read_tail(source));
  const auto end = find_end(tail);
  return end && !end->has_junk;
}

Result<ZipIndex> read_zip_index(const Source& source) {
  TRY_ASSIGN(const Directory directory, find_directory(source));
  ZipIndex index;
  index.directory_offset_ = directory.offset + directory.shift;
  index.has_junk_ = directory.has_junk;
  index.is_split_ = directory.is_split;
  TRY_ASSIGN(index.directory_, exact_text(source, index.directory_offset_, directory.size));
  TRY(index.list_members(source, directory.shift));
  const std::uint64_t found = index.size();
  if (found != directory.members && (found & 0xffff) != directory.members) {
    return damaged_zip(source, "its directory contains " + human_count(found) +
                                   " entries but announces " + human_count(directory.members));
  }
  TRY(index.check_places(source));
  TRY(check_alone(source, index.begin()));
  return index;
}

}  // namespace nodestage
