#include "daemon/worker/archive/zip_index.hpp"

#include <algorithm>
#include <string_view>

#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view k_record = "PK\1\2"sv;
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
  return fault(0, shown(source.path()) + ": is one part of a zip archive in several files",
               "Join the files: zip -s 0 PARTS.zip --out WHOLE.zip");
}

Result<std::vector<char>> exact_bytes(const Source& source, std::uint64_t offset,
                                      std::uint64_t size) {
  if (offset > source.size() || size > source.size() - offset || size > k_max_directory) {
    return truncated(source);
  }
  std::vector<char> data(size);
  TRY_ASSIGN(const std::size_t count,
             source.read_at(offset, std::as_writable_bytes(std::span(data))));
  if (count < size) return truncated(source);
  return data;
}

std::string_view directory_text(const std::vector<char>& data) {
  return {data.data(), data.size()};
}

Result<bool> starts_at(const Source& source, std::uint64_t offset, std::string_view magic) {
  if (source.size() < magic.size() || offset > source.size() - magic.size()) return false;
  TRY_ASSIGN(const auto start, exact_bytes(source, offset, magic.size()));
  return directory_text(start) == magic;
}

// The zip64 end record: where its locator points or, behind a self-extractor, right before it.
Result<Directory> wide_directory(const Source& source, std::string_view locator,
                                 std::uint64_t locator_at) {
  const auto stated = little<std::uint64_t>(locator, 8);
  for (const std::uint64_t at : {stated, locator_at - k_wide_end_bytes}) {
    if (at > locator_at || locator_at - at < k_wide_end_bytes) continue;
    TRY_ASSIGN(const auto record, exact_bytes(source, at, k_wide_end_bytes));
    const std::string_view wide = directory_text(record);
    if (!wide.starts_with("PK\6\6"sv)) continue;
    if (little<std::uint32_t>(wide, 16) != 0) return in_parts(source);
    return Directory{little<std::uint64_t>(wide, 40), little<std::uint64_t>(wide, 48), at,
                     little<std::uint64_t>(wide, 32)};
  }
  return truncated(source);
}

// Whether the directory that the end record describes exists and ends right before it: if so, what
// looks like a record of zip64 there is part of a name.
Result<bool> ends_at(const Source& source, std::string_view end, std::uint64_t at) {
  const std::uint64_t size = little<std::uint32_t>(end, 12);
  if (size == 0 || size > at || little<std::uint32_t>(end, 16) != at - size) return false;
  return starts_at(source, at - size, k_record);
}

// The comment, whose length is the last field, should reach to the file's end or to zeros that do
// (bsdtar writes them to a pipe).
std::optional<End> find_end(std::string_view tail) {
  const auto follows = [tail](std::size_t at) -> std::optional<std::string_view> {
    if (at + k_end_bytes > tail.size()) return std::nullopt;
    const std::size_t end = at + k_end_bytes + little<std::uint16_t>(tail, at + 20);
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
Result<std::vector<char>> read_tail(const Source& source) {
  const std::uint64_t size = std::min<std::uint64_t>(source.size(), k_end_bytes + k_max_comment);
  return exact_bytes(source, source.size() - size, size);
}

Result<Directory> stated_directory(const Source& source) {
  TRY_ASSIGN(const auto data, read_tail(source));
  const std::uint64_t tail_at = source.size() - data.size();
  const std::string_view tail = directory_text(data);
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
    if (little<std::uint16_t>(tail, end + 4) != 0) return in_parts(source);
    directory = {little<std::uint32_t>(tail, end + 12), little<std::uint32_t>(tail, end + 16),
                 tail_at + end, little<std::uint16_t>(tail, end + 10)};
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
    if (is_last && !directory.has_junk) {
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
  TRY_ASSIGN(const auto before, exact_bytes(source, first - size, size));
  const auto end = find_end(directory_text(before));
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

ArchiveContents::Member ZipIndex::member(std::size_t number) const {
  const ZipRecord stated = record(number);
  return {stated.name(), stated.size};
}

Status ZipIndex::check_readable(std::size_t number) const {
  return record(number).check_readable();
}

Status ZipIndex::list_members(const Source& source, std::uint64_t shift) {
  std::string_view rest = text();
  while (auto record = ZipRecord::parse(rest)) {
    if (record->has_wide_fault) {
      return damaged_zip(source, "entry '" + shown(record->name()) + "' has no 64-bit size");
    }
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

Result<bool> has_zip_end(const Source& source) {
  TRY_ASSIGN(const auto tail, read_tail(source));
  const auto end = find_end(directory_text(tail));
  return end && !end->has_junk;
}

Result<ZipIndex> read_zip_index(const Source& source) {
  TRY_ASSIGN(const Directory directory, find_directory(source));
  ZipIndex index;
  index.directory_offset_ = directory.offset + directory.shift;
  index.has_junk_ = directory.has_junk;
  TRY_ASSIGN(index.directory_, exact_bytes(source, index.directory_offset_, directory.size));
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
