#include "daemon/worker/piece/tree_stream.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "common/os/file.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_flush_bytes = std::size_t{1} << 20;
constexpr std::size_t k_read_bytes = std::size_t{256} << 10;
constexpr std::uint64_t k_most_data = std::uint64_t{256} << 10;  // in one record
constexpr std::size_t k_most_xattr_texts = 2 * 1024;             // as put_xattr() keeps
constexpr std::uint64_t k_sector = 512;                          // the unit of st_blocks

enum class RecordKind : std::uint8_t {
  file = 1,
  directory = 2,
  symlink = 3,
  hard_link = 4,
  data = 5,
  end = 6,
};
constexpr EnumRange<RecordKind> range_of(RecordKind) { return {RecordKind::file, RecordKind::end}; }

Entry entry_at(const std::string& path, Entry::Kind kind) {
  Entry entry;
  entry.name = path;
  entry.kind = kind;
  return entry;
}

WireEncoder record_of(RecordKind kind, const std::string& path) {
  WireEncoder out;
  out.one_of(kind);
  out.text(path);
  return out;
}

void add_attributes(WireEncoder& out, mode_t mode, const struct stat& info,
                    const SharedXattrs& xattrs) {
  out.u32(mode);
  out.u64(static_cast<std::uint64_t>(info.st_mtim.tv_sec));
  out.u32(static_cast<std::uint32_t>(info.st_mtim.tv_nsec));
  std::vector<std::string> texts;
  if (xattrs) {
    for (const Xattr& xattr : *xattrs) {
      texts.push_back(xattr.name);
      texts.push_back(xattr.value);
    }
  }
  out.texts(texts);
}

bool is_path_of_entry(const std::string& path) {
  const auto cleaned = clean_entry_name(path);
  return cleaned && *cleaned == path;
}

// Only the top has no name, only times within a second are right, and sizes are those of off_t.
bool is_right(const Entry& entry) {
  const bool is_top = entry.kind == Entry::Kind::directory && entry.name.empty();
  const bool is_named = is_top || (!entry.name.empty() && is_path_of_entry(entry.name));
  const bool is_linked = entry.kind != Entry::Kind::hard_link || is_path_of_entry(entry.link);
  const bool is_timed =
      !entry.mtime || (entry.mtime->tv_nsec >= 0 && entry.mtime->tv_nsec < 1'000'000'000);
  const bool is_sized = entry.size <= std::numeric_limits<std::int64_t>::max();
  return is_named && is_linked && is_timed && is_sized && (entry.mode & ~mode_t{07777}) == 0;
}

}  // namespace

SharedXattrs TreeStreamWriter::xattrs_of(int fd) {
  if (!rules_.xattrs) return nullptr;
  auto xattrs = read_xattrs(fd);
  if (xattrs && 2 * xattrs->size() <= k_most_xattr_texts)
    return std::make_shared<Xattrs>(std::move(*xattrs));
  const std::lock_guard lock(mutex_);
  xattrs ? refuse() : give_up();
  return nullptr;
}

void TreeStreamWriter::file(const std::string& path, int fd, const struct stat& info) {
  const auto size = static_cast<std::uint64_t>(info.st_size);
  Entry entry = entry_at(path, Entry::Kind::file);
  entry.xattrs = xattrs_of(fd);
  WireEncoder record = record_of(RecordKind::file, path);
  add_attributes(record, mode_of_copy(info), info, entry.xattrs);
  record.u64(size);
  const bool may_have_holes = static_cast<std::uint64_t>(info.st_blocks) * k_sector < size;
  const std::lock_guard lock(mutex_);
  put_entry(entry, record);
  if (!may_have_holes) {
    if (!put_data(fd, 0, size)) give_up();
    return;
  }
  for (std::uint64_t at = 0; at < size && !is_given_up_;) {
    const auto range = next_data(fd, at, size);
    if (!range || (*range && !put_data(fd, (*range)->begin, (*range)->end))) give_up();
    at = range && *range ? (*range)->end : size;
  }
}

void TreeStreamWriter::directory(const std::string& path, int fd, const struct stat& info) {
  Entry entry = entry_at(path, Entry::Kind::directory);
  entry.xattrs = xattrs_of(fd);
  WireEncoder record = record_of(RecordKind::directory, path);
  add_attributes(record, info.st_mode & 07777, info, entry.xattrs);
  const std::lock_guard lock(mutex_);
  put_entry(entry, record);
}

void TreeStreamWriter::symlink(const std::string& path, const std::string& target,
                               const struct stat& info) {
  Entry entry = entry_at(path, Entry::Kind::symlink);
  entry.link = target;
  WireEncoder record = record_of(RecordKind::symlink, path);
  add_attributes(record, 0, info, nullptr);
  record.text(target);
  const std::lock_guard lock(mutex_);
  put_entry(entry, record);
}

void TreeStreamWriter::hard_link(const std::string& path, const std::string& first) {
  Entry entry = entry_at(path, Entry::Kind::hard_link);
  entry.link = first;
  WireEncoder record = record_of(RecordKind::hard_link, path);
  record.text(first);
  const std::lock_guard lock(mutex_);
  put_entry(entry, record);
}

void TreeStreamWriter::end(const TreeSummary& summary) {
  WireEncoder record;
  record.one_of(RecordKind::end);
  for (const std::uint64_t count : {summary.skipped, summary.taken, summary.lost_xattrs})
    record.u64(count);
  for (const auto* text : {&summary.entries, &summary.links, &summary.idle_globs})
    record.text(*text);
  const std::lock_guard lock(mutex_);
  put(record);
  flush();
  if (!is_given_up_) tree_.end();
}

// Under mutex_, as all that follows. A stream without its end is none. Those who read it need not
// wait for the end of the copy.
void TreeStreamWriter::give_up() {
  is_given_up_ = true;
  static_cast<void>(tree_.close());
}

// The copy of another node would be beyond the same bounds.
void TreeStreamWriter::refuse() {
  tree_.refuse();
  give_up();
}

void TreeStreamWriter::put_entry(const Entry& entry, const WireEncoder& record) {
  if (!is_given_up_ && !limits_.check(entry)) refuse();
  put(record);
}

void TreeStreamWriter::put(const WireEncoder& record) {
  if (!is_given_up_ && record.data().size() > k_most_tree_record) refuse();
  if (is_given_up_) return;
  WireEncoder length;
  length.u32(static_cast<std::uint32_t>(record.data().size()));
  for (const std::string* text : {&length.data(), &record.data()}) {
    const auto bytes = std::as_bytes(std::span(*text));
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  if (buffer_.size() >= k_flush_bytes) flush();
}

// Returns false if the copy cannot be read.
bool TreeStreamWriter::put_data(int fd, std::uint64_t begin, std::uint64_t end) {
  while (begin < end && !is_given_up_) {
    const auto bytes = static_cast<std::size_t>(std::min(k_most_data, end - begin));
    WireEncoder record;
    record.one_of(RecordKind::data);
    record.u64(begin);
    record.u32(static_cast<std::uint32_t>(bytes));
    put(record);
    const std::size_t before = buffer_.size();
    buffer_.resize(before + bytes);
    const auto count = pread_all(fd, std::span(buffer_).subspan(before), begin);
    if (!count || *count < bytes) return false;
    begin += bytes;
    if (buffer_.size() >= k_flush_bytes) flush();
  }
  return true;
}

void TreeStreamWriter::flush() {
  if (!is_given_up_ && !tree_.write(buffer_)) give_up();
  buffer_.clear();
}

Error TreeStreamReader::bad() {
  is_bad_ = true;
  return Error{EPROTO, "what another node sent of the directory makes no sense"};
}

Status TreeStreamReader::take(std::span<std::byte> into) {
  while (!into.empty()) {
    if (rest_.empty()) {
      buffer_.resize(k_read_bytes);
      TRY_ASSIGN(const std::size_t count, tree_.read(buffer_));
      if (count == 0) return bad();  // before the record `end`
      rest_ = std::span(buffer_).first(count);
    }
    const std::size_t bytes = std::min(into.size(), rest_.size());
    std::copy_n(rest_.begin(), bytes, into.begin());
    rest_ = rest_.subspan(bytes);
    into = into.subspan(bytes);
  }
  return {};
}

Result<TreeRecord> TreeStreamReader::next() {
  std::array<char, 4> prefix{};
  TRY(take(std::as_writable_bytes(std::span(prefix))));
  const std::uint32_t length = WireDecoder({prefix.data(), prefix.size()}).u32();
  if (length > k_most_tree_record) return bad();
  std::string text(length, '\0');
  TRY(take(std::as_writable_bytes(std::span(text))));
  WireDecoder in(text);
  const auto kind = in.one_of<RecordKind>();
  if (!in.ok()) return bad();
  switch (kind) {
    case RecordKind::file:
      return entry_of(in, Entry::Kind::file);
    case RecordKind::directory:
      return entry_of(in, Entry::Kind::directory);
    case RecordKind::symlink:
      return entry_of(in, Entry::Kind::symlink);
    case RecordKind::hard_link:
      return entry_of(in, Entry::Kind::hard_link);
    case RecordKind::data:
      return data_of(in);
    case RecordKind::end:
      return end_of(in);
  }
  return bad();
}

Result<TreeRecord> TreeStreamReader::end_of(WireDecoder& in) {
  TreeRecord record{TreeRecord::Kind::end};
  TreeSummary& summary = record.summary;
  for (auto* count : {&summary.skipped, &summary.taken, &summary.lost_xattrs}) *count = in.u64();
  for (auto* note : {&summary.entries, &summary.links, &summary.idle_globs}) *note = in.text();
  return in.finished() ? std::move(record) : Result<TreeRecord>(bad());
}

bool TreeStreamReader::take_attributes(WireDecoder& in, Entry& entry) const {
  entry.mode = in.u32();
  timespec time{};
  time.tv_sec = static_cast<time_t>(in.u64());
  time.tv_nsec = static_cast<long>(in.u32());
  entry.mtime = time;
  const std::vector<std::string> texts = in.texts();
  if (texts.empty()) return true;
  if (!has_xattrs_ || texts.size() % 2 != 0 || texts.size() > k_most_xattr_texts) return false;
  auto xattrs = std::make_shared<Xattrs>();
  for (std::size_t i = 0; i < texts.size(); i += 2)
    if (is_kept_xattr(texts[i])) put_xattr(*xattrs, texts[i], texts[i + 1]);
  entry.xattrs = std::move(xattrs);
  return true;
}

Result<TreeRecord> TreeStreamReader::entry_of(WireDecoder& in, Entry::Kind kind) {
  TreeRecord record{TreeRecord::Kind::entry};
  Entry& entry = record.entry;
  entry.kind = kind;
  entry.name = in.text();
  if (kind != Entry::Kind::hard_link && !take_attributes(in, entry)) return bad();
  if (kind == Entry::Kind::file) entry.size = in.u64();
  if (kind == Entry::Kind::symlink || kind == Entry::Kind::hard_link) entry.link = in.text();
  if (!in.finished() || !is_right(entry) || !limits_.check(entry)) return bad();
  data_from_ = 0;
  data_to_ = entry.size;
  return record;
}

Result<TreeRecord> TreeStreamReader::data_of(WireDecoder& in) {
  TreeRecord record{TreeRecord::Kind::data};
  const std::uint64_t offset = in.u64();
  const std::uint32_t count = in.u32();
  if (!in.finished() || count == 0 || count > k_most_data) return bad();
  if (offset < data_from_ || offset > data_to_ || count > data_to_ - offset) return bad();
  data_from_ = offset + count;
  record.block.offset = offset;
  const std::shared_ptr<std::byte[]> memory(new std::byte[count]);
  const std::span bytes(memory.get(), count);
  TRY(take(bytes));
  record.block.data = Slice(memory, bytes);
  return record;
}

}  // namespace nodestage
