#include "daemon/worker/archive/archive_entries.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>

#include "common/wire/status_file.hpp"
#include "daemon/worker/archive/tar_header.hpp"

namespace nodestage {
namespace {

// zip seeks to each entry's header: larger blocks would read too much, smaller ones too often.
constexpr std::size_t k_seek_block = std::size_t{256} * 1024;

struct ArchiveFree {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using Archive = std::unique_ptr<archive, ArchiveFree>;

// Whether a warning about a header leaves the entry as it was meant. That holds for names, and for
// ACLs, which are not kept.
bool is_harmless_warning(archive* handle) {
  const char* text = archive_error_string(handle);
  if (text == nullptr) return false;
  constexpr const char* k_harmless[] = {"can't be converted", "cannot be converted", "ACL"};
  return std::any_of(std::begin(k_harmless), std::end(k_harmless),
                     [text](const char* part) { return std::strstr(text, part) != nullptr; });
}

int support_format(archive* handle, Container container) {
  switch (container) {
    case Container::tar:
      return archive_read_support_format_tar(handle);
    case Container::zip:
      return archive_read_support_format_zip_seekable(handle);
    case Container::seven_zip:
      return archive_read_support_format_7zip(handle);
    case Container::iso:
      return archive_read_support_format_iso9660(handle);
    case Container::none:
      break;
  }
  return ARCHIVE_FATAL;
}

Entry::Kind kind_of(archive_entry* raw) {
  if (archive_entry_hardlink(raw) != nullptr) return Entry::Kind::hard_link;
  switch (archive_entry_filetype(raw)) {
    case AE_IFREG:
    case 0:
      return Entry::Kind::file;
    case AE_IFDIR:
      return Entry::Kind::directory;
    case AE_IFLNK:
      return Entry::Kind::symlink;
    case AE_IFIFO:
      return Entry::Kind::fifo;
    default:
      return Entry::Kind::other;
  }
}

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

Entry entry_of(archive_entry* raw) {
  Entry entry;
  entry.name = text_or_empty(archive_entry_pathname(raw));
  entry.kind = kind_of(raw);
  entry.mode = archive_entry_perm(raw);
  if (archive_entry_mtime_is_set(raw) != 0) {
    entry.mtime = timespec{archive_entry_mtime(raw), archive_entry_mtime_nsec(raw)};
  }
  entry.size = static_cast<std::uint64_t>(std::max<la_int64_t>(archive_entry_size(raw), 0));
  if (entry.kind == Entry::Kind::hard_link) entry.link = text_or_empty(archive_entry_hardlink(raw));
  if (entry.kind == Entry::Kind::symlink) entry.link = text_or_empty(archive_entry_symlink(raw));
  return entry;
}

// libarchive's answers, made strict.
class FileEntries final : public Entries {
 public:
  FileEntries(Container container, Source& source, std::optional<ZipIndex> index)
      : container_(container),
        source_(source),
        block_(k_seek_block),
        index_(std::move(index)),
        is_index_given_(index_) {}

  Status open();
  Result<Entry*> next() override;
  Result<Block> read() override;
  [[nodiscard]] const ZipIndex* contents() const override { return index_ ? &*index_ : nullptr; }
  [[nodiscard]] std::string note() const override { return has_junk_ ? k_junk_note : ""; }

 private:
  Result<std::uint64_t> end() const;
  Error failed(const std::string& cause) const;
  // The source's fault, if it had one, else libarchive's.
  Error current_fault() const;
  Status opened_fault(int status) const;
  Status name_entry(Entry& entry);
  Status at_end();
  la_ssize_t give_block(const void** data);
  la_int64_t seek(la_int64_t offset, int whence);
  // A zip without members, which libarchive does not recognize as a zip.
  [[nodiscard]] bool is_empty() const { return index_ && index_->size() == 0; }

  const Archive archive_{archive_read_new()};
  const Container container_;
  Source& source_;
  Status input_fault_;
  Entry entry_;
  std::vector<std::byte> block_;
  std::uint64_t position_ = 0;
  std::optional<ZipIndex> index_;
  const bool is_index_given_;
  std::size_t seen_ = 0;
  bool has_junk_ = false;  // after the end
};

Error FileEntries::current_fault() const {
  if (!input_fault_) return input_fault_.error();
  std::string cause = text_or_empty(archive_error_string(archive_.get()));
  while (cause.ends_with('\n')) cause.pop_back();
  return failed(cause);
}

Status FileEntries::opened_fault(int status) const {
  return status == ARCHIVE_OK ? Status() : current_fault();
}

Result<Entry*> FileEntries::next() {
  if (is_empty()) return static_cast<Entry*>(nullptr);
  archive_entry* raw = nullptr;
  const int status = archive_read_next_header(archive_.get(), &raw);
  if (status == ARCHIVE_EOF) {
    if (!input_fault_) return input_fault_.error();
    TRY(at_end());
    return static_cast<Entry*>(nullptr);
  }
  if (status != ARCHIVE_OK && !(status == ARCHIVE_WARN && is_harmless_warning(archive_.get()))) {
    return current_fault();
  }
  entry_ = entry_of(raw);
  TRY(name_entry(entry_));
  if (archive_entry_is_encrypted(raw) != 0) {
    return failed("is protected with a password, which a job cannot type");
  }
  return &entry_;
}

Result<Block> FileEntries::read() {
  for (;;) {
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int status = archive_read_data_block(archive_.get(), &data, &size, &offset);
    if (status == ARCHIVE_EOF) return Block{};
    if (status != ARCHIVE_OK) return current_fault();
    if (size == 0) continue;
    // libarchive's memory is its own and changes with the next call.
    return Block{static_cast<std::uint64_t>(offset),
                 Slice::copy_of({static_cast<const std::byte*>(data), size})};
  }
}

Status FileEntries::open() {
  if (container_ == Container::zip && !index_) {
    TRY_ASSIGN(index_, read_zip_index(source_));
  }
  if (is_empty()) return {};
  if (container_ == Container::seven_zip) TRY(check_seven_zip_header(source_));
  if (support_format(archive_.get(), container_) != ARCHIVE_OK) return opened_fault(ARCHIVE_FATAL);
  if (container_ == Container::tar)
    archive_read_set_options(archive_.get(), "tar:read_concatenated_archives");
  archive_read_set_read_callback(archive_.get(), [](archive*, void* self, const void** data) {
    return static_cast<FileEntries*>(self)->give_block(data);
  });
  archive_read_set_seek_callback(archive_.get(),
                                 [](archive*, void* self, la_int64_t offset, int whence) {
                                   return static_cast<FileEntries*>(self)->seek(offset, whence);
                                 });
  archive_read_set_callback_data(archive_.get(), this);
  return opened_fault(archive_read_open1(archive_.get()));
}

// 7z: where its start says that its last header ends.
Result<std::uint64_t> FileEntries::end() const {
  TRY_ASSIGN(const std::string start, source_.text_at(0, k_seven_zip_start));
  if (container_ != Container::seven_zip || start.size() < k_seven_zip_start) return source_.size();
  const auto end = more(more(start.size(), little_endian<std::uint64_t>(start, 12)),
                        little_endian<std::uint64_t>(start, 20));
  return std::min(end, source_.size());
}

la_ssize_t FileEntries::give_block(const void** data) {
  auto bytes = source_.read_at(position_, block_);
  if (!bytes) {
    input_fault_ = std::move(bytes.error());
    archive_set_error(archive_.get(), EIO, "the source failed");
    return -1;
  }
  position_ += *bytes;
  *data = block_.data();
  return static_cast<la_ssize_t>(*bytes);
}

la_int64_t FileEntries::seek(la_int64_t offset, int whence) {
  const auto base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? position_ : source_.size();
  position_ = base + static_cast<std::uint64_t>(offset);
  return static_cast<la_int64_t>(position_);
}

Error FileEntries::failed(const std::string& cause) const {
  return archive_fault(source_.path(), container_, cause);
}

Status FileEntries::name_entry(Entry& entry) {
  if (!index_) return {};
  if (seen_ >= index_->size()) return failed("more entries than its directory lists");
  Entry stated = index_->record(seen_++).entry();
  entry.name = std::move(stated.name);
  if (!is_index_given_) return {};
  entry.mode = stated.mode;
  entry.mtime = stated.mtime;
  return {};
}

Status FileEntries::at_end() {
  if (index_ && seen_ != index_->size()) return failed("two entries at one position");
  TRY_ASSIGN(const std::uint64_t end, this->end());
  TRY_ASSIGN(has_junk_, has_junk(source_, end));
  return {};
}

}  // namespace

Result<std::unique_ptr<Entries>> open_file_entries(Container container, Source& source,
                                                   std::optional<ZipIndex> index) {
  auto entries = std::make_unique<FileEntries>(container, source, std::move(index));
  TRY(entries->open());
  return Result<std::unique_ptr<Entries>>(std::move(entries));
}

}  // namespace nodestage
