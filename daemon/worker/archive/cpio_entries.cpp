#include "daemon/worker/archive/cpio_entries.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "daemon/worker/archive/archive_end.hpp"
#include "daemon/worker/archive/cpio_header.hpp"
#include "daemon/worker/archive/cpio_links.hpp"
#include "daemon/worker/archive/decoded_bytes.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_most_name_bytes = 0xffff;
constexpr std::size_t k_start_bytes = k_magic_bytes;  // less than any header has

Entry::Kind kind_of(std::uint64_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
    case 0:
      return Entry::Kind::file;
    case S_IFDIR:
      return Entry::Kind::directory;
    case S_IFLNK:
      return Entry::Kind::symlink;
    case S_IFIFO:
      return Entry::Kind::fifo;
    default:
      return Entry::Kind::other;
  }
}

std::uint32_t sum_of(Bytes bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint32_t{0},
                         [](std::uint32_t sum, std::byte value) {
                           return sum + std::to_integer<std::uint32_t>(value);
                         });
}

class CpioEntries final : public Entries {
 public:
  explicit CpioEntries(Decoder& decoder) : decoder_(decoder), bytes_(decoder) {}

  Result<Entry*> next() override;
  Result<Block> read() override;
  [[nodiscard]] std::string note() const override;

 private:
  Result<bool> find_archive();
  Status end_entry();
  Result<CpioHeader> take_header();
  Status take_name(std::uint64_t size);
  Status begin_entry(const CpioHeader& header);
  Status take_link(const CpioHeader& header);
  Status find_first_name(const CpioHeader& header);
  Result<Slice> take_data();
  [[nodiscard]] std::uint64_t padding_of(std::uint64_t bytes) const {
    const std::uint64_t alignment = cpio_alignment(form_);
    return (alignment - bytes % alignment) % alignment;
  }
  [[nodiscard]] Error damaged(std::string_view cause) const { return decoder_.damaged(cause); }

  Decoder& decoder_;
  CpioForm form_ = CpioForm::none;  // before the first header
  DecodedBytes bytes_;
  std::string start_;         // of the next header, taken already
  std::string text_;          // the text that was taken last
  std::uint64_t stored_ = 0;  // bytes of the current entry's data that are still to come
  std::uint64_t padding_ = 0;
  std::uint64_t offset_ = 0;  // in the file
  std::optional<std::uint64_t> checksum_;
  std::uint32_t sum_ = 0;  // of the data so far
  CpioLinks links_;
  std::uint64_t archives_ = 1;
  bool has_junk_ = false;  // after the end
  Entry entry_;
};

// Covers data that nobody has read, too.
Status CpioEntries::end_entry() {
  while (stored_ > 0) TRY(take_data());
  return bytes_.pass_over(std::exchange(padding_, 0));
}

Result<Entry*> CpioEntries::next() {
  TRY(end_entry());
  for (;;) {
    TRY_ASSIGN(const CpioHeader header, take_header());
    TRY(take_name(header.name_size));
    if (entry_.name != "TRAILER!!!") {
      TRY(begin_entry(header));
      return &entry_;
    }
    TRY_ASSIGN(const bool is_another, find_archive());
    if (!is_another) return static_cast<Entry*>(nullptr);
  }
}

// Whether another cpio follows the trailer and its padding, as with `cat a.cpio b.cpio`, in any
// form. If so, the start of its first header is taken already; if not, all is read.
Result<bool> CpioEntries::find_archive() {
  bool is_there = true;
  while (is_there) {
    TRY_ASSIGN(is_there, bytes_.fill());
    const Bytes left = is_there ? bytes_.left() : Bytes();
    const auto other =
        std::find_if(left.begin(), left.end(), [](std::byte b) { return b != std::byte{0}; });
    bytes_.skip(static_cast<std::size_t>(other - left.begin()));
    if (other != left.end()) break;
  }
  for (start_.clear(); is_there && start_.size() < k_start_bytes;) {
    const std::size_t count = std::min(bytes_.left().size(), k_start_bytes - start_.size());
    start_.append(reinterpret_cast<const char*>(bytes_.left().data()), count);
    bytes_.skip(count);
    TRY_ASSIGN(is_there, bytes_.fill());
  }
  if (start_.empty()) return false;
  if (const CpioForm form = cpio_form(start_); form != CpioForm::none) {
    form_ = form;
    links_ = {};
    ++archives_;
    return true;
  }
  const std::string kind = kind_of_start(std::as_bytes(std::span(start_)));
  if (!kind.empty()) return other_archive(decoder_.path(), kind, {});
  has_junk_ = true;
  while (is_there) {
    bytes_.skip(bytes_.left().size());
    TRY_ASSIGN(is_there, bytes_.fill());
  }
  return false;
}

std::string CpioEntries::note() const {
  if (has_junk_) return k_junk_note;
  return archives_ > 1 ? joined_note(archives_) : "";
}

Result<CpioHeader> CpioEntries::take_header() {
  if (form_ == CpioForm::none) {
    TRY_ASSIGN(const Bytes start, decoder_.peek());
    form_ = cpio_form({reinterpret_cast<const char*>(start.data()), start.size()});
  }
  if (form_ == CpioForm::none) return damaged("not a cpio header");
  TRY(bytes_.take_text(text_, cpio_header_bytes(form_) - start_.size()));
  text_.insert(0, std::exchange(start_, {}));
  if (cpio_form(text_) != form_) return damaged("other data where a cpio header should be");
  const auto header = cpio_header(form_, text_);
  if (!header) return damaged("a cpio header with an invalid number");
  return *header;
}

// Some writers fill names with NULs so that the data start where they want them.
Status CpioEntries::take_name(std::uint64_t size) {
  if (size == 0 || size > k_most_name_bytes)
    return damaged("a cpio header with a name of " + std::to_string(size) + " bytes");
  TRY(bytes_.take_text(text_, size));
  if (text_.back() != '\0') return damaged("a cpio header with a name without an end");
  entry_.name.assign(text_, 0, text_.find('\0'));
  return bytes_.pass_over(padding_of(cpio_header_bytes(form_) + size));
}

Status CpioEntries::begin_entry(const CpioHeader& header) {
  entry_.kind = kind_of(header.mode);
  entry_.mode = static_cast<mode_t>(header.mode & 07777);
  entry_.mtime = timespec{static_cast<time_t>(header.mtime), 0};
  entry_.size = 0;
  entry_.link.clear();
  stored_ = header.size;
  padding_ = padding_of(stored_);
  offset_ = 0;
  sum_ = 0;
  checksum_.reset();
  if (entry_.kind == Entry::Kind::file) {
    entry_.size = stored_;
    checksum_ = header.checksum;
    if (header.links > 1) return find_first_name(header);
  }
  links_.forget(entry_.name);
  return entry_.kind == Entry::Kind::symlink ? take_link(header) : Status();
}

Status CpioEntries::take_link(const CpioHeader& header) {
  if (header.size > EntryLimits::k_link_bytes)
    return damaged("a symbolic link of " + std::to_string(header.size) + " bytes");
  TRY(bytes_.take_text(text_, header.size));
  stored_ = 0;
  entry_.link.assign(text_, 0, text_.find('\0'));
  return {};
}

Status CpioEntries::find_first_name(const CpioHeader& header) {
  CpioLinks::File file{header.device, header.inode};
  if (form_ != CpioForm::newc) {
    file.mode = header.mode;
    file.mtime = header.mtime;
    file.size = header.size;
  }
  auto first = links_.first_name(file, header.links, entry_.name);
  if (!first) {
    return fault(0, "after it the archive has more hard links than can be tracked (256 MiB)",
                 "Split it into several archives, or make a tar");
  }
  if (first->empty()) return {};
  entry_.kind = Entry::Kind::hard_link;
  entry_.link = std::move(*first);
  return {};
}

// Takes as much as a block holds. After the last bytes the checksum is known to be right.
Result<Slice> CpioEntries::take_data() {
  TRY_ASSIGN(const bool is_there, bytes_.fill());
  if (!is_there) return decoder_.cut_off();
  Slice data = bytes_.take(std::min<std::uint64_t>(stored_, bytes_.left().size()));
  stored_ -= data.size();
  if (!checksum_) return data;
  sum_ += sum_of(data.bytes());
  if (stored_ == 0 && sum_ != *checksum_) return damaged("a wrong checksum of a file's data");
  return data;
}

Result<Block> CpioEntries::read() {
  const bool has_data = entry_.kind == Entry::Kind::file || entry_.kind == Entry::Kind::hard_link;
  if (stored_ == 0 || !has_data) return Block{};
  TRY_ASSIGN(Slice data, take_data());
  const std::uint64_t offset = std::exchange(offset_, offset_ + data.size());
  return Block{offset, std::move(data)};
}

}  // namespace

std::unique_ptr<Entries> open_cpio_entries(Decoder& decoder) {
  return std::make_unique<CpioEntries>(decoder);
}

}  // namespace nodestage
