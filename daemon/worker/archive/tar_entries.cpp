#include <algorithm>
#include <limits>
#include <vector>

#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/tar_header.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_max_extension = std::uint64_t{8} << 20U;
constexpr std::size_t k_max_pieces = std::size_t{1} << 20U;
constexpr auto k_max_size = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

std::uint64_t padding_of(std::uint64_t bytes) {
  return (k_tar_block - bytes % k_tar_block) % k_tar_block;
}

// A part of a sparse file that holds data.
struct Piece {
  std::uint64_t offset;
  std::uint64_t size;
};

class TarEntries final : public Entries {
 public:
  TarEntries(Decoder& decoder, TarEnd end)
      : decoder_(decoder), end_(end), bytes_(decoder), rest_(decoder, bytes_) {}

  Result<Entry*> next() override;
  Result<Block> read() override;
  [[nodiscard]] std::string note() const override { return rest_.note(); }

 private:
  Result<TarHeaderBlock> take_block();
  Result<std::string> take_text(std::uint64_t bytes);
  Result<bool> take_extension(const TarHeaderBlock& header, std::uint64_t size);
  Status begin_entry(const TarHeaderBlock& header, std::uint64_t size);
  void name_entry(const TarHeaderBlock& header);
  Status keep_data(const TarHeaderBlock& header, std::uint64_t size);
  Result<bool> is_header_next();
  Status begin_sparse(const TarHeaderBlock& header);
  Status read_gnu_pieces(TarHeaderBlock header);
  Status add_gnu_pieces(const TarHeaderBlock& header, std::size_t at, std::size_t count);
  Status read_map();
  Status add_piece(std::uint64_t offset, std::uint64_t size);
  Status end_pieces();
  [[nodiscard]] Error damaged(std::string_view cause) const { return decoder_.damaged(cause); }

  Decoder& decoder_;
  TarEnd end_;
  DecodedBytes bytes_;
  TarRest rest_;
  std::uint64_t stored_ = 0;  // bytes of the current entry's data that are still to come
  std::uint64_t padding_ = 0;
  std::uint64_t offset_ = 0;  // in the file
  bool is_sparse_ = false;
  std::vector<Piece> pieces_;
  std::size_t piece_ = 0;  // the current one; offset and size are of what is left
  PaxHeader global_;
  PaxHeader local_;
  bool has_pax_ = false;        // somewhere earlier
  bool has_extension_ = false;  // before the next entry
  Entry entry_;
};

// Headers never lie across two blocks: all blocks but the last are multiples of 512 bytes. After
// the last one comes the input's end, or the reason why there is no more.
Result<TarHeaderBlock> TarEntries::take_block() {
  TRY_ASSIGN(bool is_there, bytes_.fill());
  if (is_there && bytes_.left().size() < k_tar_block) {
    bytes_.skip(bytes_.left().size());
    TRY_ASSIGN(is_there, bytes_.fill());
  }
  if (!is_there || bytes_.left().size() < k_tar_block) return decoder_.cut_off();
  const Bytes bytes = bytes_.left().first(k_tar_block);
  bytes_.skip(k_tar_block);
  return TarHeaderBlock(bytes);
}

Result<std::string> TarEntries::take_text(std::uint64_t bytes) {
  if (bytes > k_max_extension)
    return damaged("an extended header of " + std::to_string(bytes) + " bytes");
  std::string text;
  TRY(bytes_.take_text(text, bytes));
  TRY(bytes_.pass_over(padding_of(bytes)));
  return text;
}

Result<Entry*> TarEntries::next() {
  TRY(bytes_.pass_over(stored_));
  TRY(bytes_.pass_over(padding_));
  stored_ = padding_ = 0;
  for (;;) {
    TRY_ASSIGN(const bool is_there, bytes_.fill());
    if (!is_there && !has_extension_) {
      if (end_ == TarEnd::optional) return static_cast<Entry*>(nullptr);
      Error error = decoder_.cut_off();
      error.advice +=
          "\nThe archive ends after a complete member. If the program that wrote it leaves out the "
          "end marker, the key eof=optional stages it";
      return error;
    }
    TRY_ASSIGN(const TarHeaderBlock header, take_block());
    if (header.is_zero()) {
      if (has_extension_) return damaged("an extended header without its entry");
      TRY_ASSIGN(const bool is_another, rest_.find_archive());
      if (!is_another) return static_cast<Entry*>(nullptr);
      global_ = {};
      continue;
    }
    if (!header.has_right_checksum()) return damaged("a tar header with a wrong checksum");
    const auto size = header.size();
    if (!size || *size < 0) return damaged("a tar header with an invalid size");
    TRY_ASSIGN(const bool is_extension, take_extension(header, static_cast<std::uint64_t>(*size)));
    if (is_extension) continue;
    TRY(begin_entry(header, static_cast<std::uint64_t>(*size)));
    has_extension_ = false;
    rest_.begin_entry();
    return &entry_;
  }
}

// Whether the header only describes what follows. After that it must not be used any more.
Result<bool> TarEntries::take_extension(const TarHeaderBlock& header, std::uint64_t size) {
  const char type = header.type();
  switch (type) {
    case 'L':
    case 'K': {
      TRY_ASSIGN(std::string text, take_text(size));
      text.resize(std::min(text.find('\0'), text.size()));
      (type == 'L' ? local_.path : local_.link) = std::move(text);
      has_extension_ = true;
      return true;
    }
    case 'x':
    case 'X':
    case 'g': {
      TRY_ASSIGN(const std::string text, take_text(size));
      PaxHeader& pax = type == 'g' ? global_ : local_;
      if (Status read = pax.read(text); !read) return damaged(read.error().text());
      global_.xattrs.clear();  // they never apply to all entries
      has_pax_ = true;
      has_extension_ = has_extension_ || type != 'g';
      return true;
    }
    case 'V':  // the volume's label
    case 'A':  // Solaris: access control list
    case 'E':  // and extended attributes
      TRY(bytes_.pass_over(size));
      TRY(bytes_.pass_over(padding_of(size)));
      return true;
    case 'M':
    case 'N':
      return fault(0, "belongs to an archive that was split into volumes, or to a very old GNU tar",
                   "Make the archive again as one file");
    default:
      return false;
  }
}

Entry::Kind kind_of(char type, std::string_view name) {
  switch (type) {
    case '1':
      return Entry::Kind::hard_link;
    case '2':
      return Entry::Kind::symlink;
    case '3':
    case '4':
      return Entry::Kind::other;
    case '6':
      return Entry::Kind::fifo;
    case '5':
    case 'D':  // GNU: with a list of its contents
      return Entry::Kind::directory;
    default:  // as old tars treated it
      return name.ends_with('/') ? Entry::Kind::directory : Entry::Kind::file;
  }
}

void TarEntries::name_entry(const TarHeaderBlock& header) {
  if (local_.sparse && local_.sparse->name) {
    entry_.name = *local_.sparse->name;
  } else if (local_.path || global_.path) {
    entry_.name = local_.path ? *local_.path : *global_.path;
  } else {
    header.get_name(entry_.name);
  }
  entry_.link.clear();
  if (header.type() != '1' && header.type() != '2') return;
  if (local_.link || global_.link) {
    entry_.link = local_.link ? *local_.link : *global_.link;
  } else {
    entry_.link = header.link();
  }
}

Status TarEntries::begin_entry(const TarHeaderBlock& header, std::uint64_t size) {
  name_entry(header);
  entry_.kind = kind_of(header.type(), entry_.name);
  entry_.mode = static_cast<mode_t>(header.mode() & 07777);
  entry_.mtime = local_.mtime ? local_.mtime : global_.mtime;
  if (!entry_.mtime) entry_.mtime = timespec{header.mtime(), 0};
  size = local_.size ? *local_.size : global_.size.value_or(size);
  if (size > k_max_size) return damaged("a tar header with an invalid size");
  TRY(keep_data(header, size));
  entry_.xattrs.reset();
  if (!local_.xattrs.empty())
    entry_.xattrs = std::make_shared<const Xattrs>(std::move(local_.xattrs));
  if (has_extension_) local_ = {};
  return {};
}

// Decides which data are present and where they go.
Status TarEntries::keep_data(const TarHeaderBlock& header, std::uint64_t size) {
  offset_ = 0;
  is_sparse_ = false;
  const char type = header.type();
  const bool has_none = type >= '2' && type <= '6';
  stored_ = has_none ? 0 : size;
  padding_ = padding_of(stored_);
  entry_.size = entry_.kind == Entry::Kind::file ? size : 0;
  if (type == 'S' || (local_.sparse && entry_.kind == Entry::Kind::file))
    return begin_sparse(header);
  if (entry_.kind == Entry::Kind::hard_link && size > 0) {
    // Only pax has data there. For the others, the next block shows what was meant.
    bool is_without = header.dialect() != TarHeaderBlock::Dialect::ustar;
    if (!is_without && !has_pax_) {
      TRY_ASSIGN(is_without, is_header_next());
    }
    if (is_without) stored_ = padding_ = 0;
    entry_.size = stored_;
  }
  return {};
}

Result<bool> TarEntries::is_header_next() {
  TRY_ASSIGN(const bool is_there, bytes_.fill());
  if (!is_there || bytes_.left().size() < k_tar_block) return false;
  const TarHeaderBlock next(bytes_.left().first(k_tar_block));
  return next.is_zero() || next.has_right_checksum();
}

Status TarEntries::begin_sparse(const TarHeaderBlock& header) {
  is_sparse_ = true;
  pieces_.clear();
  piece_ = 0;
  if (header.type() == 'S') {
    if (header.dialect() != TarHeaderBlock::Dialect::gnu) {
      return damaged("a sparse file in a form that only star writes");
    }
    const auto size = header.number(483, 12);
    if (!size || *size < 0) return damaged("a sparse file with an invalid size");
    entry_.size = static_cast<std::uint64_t>(*size);
    TRY(read_gnu_pieces(header));
    return end_pieces();
  }
  const PaxSparse& sparse = *local_.sparse;
  if (sparse.size) entry_.size = *sparse.size;
  if (entry_.size > k_max_size) return damaged("a sparse file with an invalid size");
  if (sparse.major == 1 && sparse.minor == 0) {
    TRY(read_map());
    return end_pieces();
  }
  if (sparse.major != 0) return damaged("a sparse file of an unknown kind");
  // Other readers differ in how they read such a map.
  if (!sparse.has_count || sparse.numbers.size() % 2 != 0)
    return damaged("a sparse file with an invalid map");
  for (std::size_t i = 0; i < sparse.numbers.size(); i += 2) {
    TRY(add_piece(sparse.numbers[i], sparse.numbers[i + 1]));
  }
  return end_pieces();
}

Status TarEntries::read_gnu_pieces(TarHeaderBlock header) {
  TRY(add_gnu_pieces(header, 386, 4));
  bool is_extended = header.at(482) != '\0';
  while (is_extended) {
    TRY_ASSIGN(const TarHeaderBlock more, take_block());
    TRY(add_gnu_pieces(more, 0, 21));
    is_extended = more.at(504) != '\0';
  }
  return {};
}

Status TarEntries::add_gnu_pieces(const TarHeaderBlock& header, std::size_t at, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, at += 24) {
    if (header.at(at) == '\0' && header.at(at + 12) == '\0') break;
    const auto offset = header.number(at, 12);
    const auto size = header.number(at + 12, 12);
    if (!offset || !size || *offset < 0 || *size < 0) {
      return damaged("a sparse file with an invalid map");
    }
    TRY(add_piece(static_cast<std::uint64_t>(*offset), static_cast<std::uint64_t>(*size)));
  }
  return {};
}

// Decimal numbers, one per line: the number of pieces, then offset and size of each. They fill
// whole blocks before the data and are counted with these.
Status TarEntries::read_map() {
  std::uint64_t left = 1;  // numbers
  bool is_count = true;
  std::uint64_t value = 0;
  std::uint64_t offset = 0;
  unsigned digits = 0;
  while (left > 0) {
    if (stored_ < k_tar_block) return damaged("a sparse file with an invalid map");
    TRY_ASSIGN(const TarHeaderBlock block, take_block());
    stored_ -= k_tar_block;
    for (std::size_t i = 0; i < k_tar_block && left > 0; ++i) {
      const char c = block.at(i);
      if (c >= '0' && c <= '9' && ++digits < 20) {
        value = value * 10 + static_cast<std::uint64_t>(c - '0');
        continue;
      }
      if (c != '\n' || digits == 0) return damaged("a sparse file with an invalid map");
      --left;
      if (is_count) {
        if (value > k_max_pieces) return damaged("a sparse file with an invalid map");
        left = 2 * value;
      } else if (left % 2 == 1) {
        offset = value;
      } else {
        TRY(add_piece(offset, value));
      }
      is_count = false;
      value = digits = 0;
    }
  }
  return {};
}

// Pieces must be in order and must not overlap: writers fill them side by side.
Status TarEntries::add_piece(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t end = pieces_.empty() ? 0 : pieces_.back().offset + pieces_.back().size;
  if (offset > entry_.size || size > entry_.size - offset || pieces_.size() > k_max_pieces ||
      (offset < end && size > 0)) {
    return damaged("a sparse file with an invalid map");
  }
  if (size > 0) pieces_.push_back({offset, size});
  return {};
}

// The pieces must add up to exactly what is stored.
Status TarEntries::end_pieces() {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces_) sum += std::min(piece.size, k_max_size - sum);
  return sum == stored_ ? Status() : damaged("a sparse file with an invalid map");
}

Result<Block> TarEntries::read() {
  if (stored_ == 0 || entry_.kind == Entry::Kind::directory) return Block{};
  TRY_ASSIGN(const bool is_there, bytes_.fill());
  if (!is_there) return decoder_.cut_off();
  std::uint64_t size = std::min<std::uint64_t>(stored_, bytes_.left().size());
  if (is_sparse_) {
    Piece& piece = pieces_[piece_];
    size = std::min(size, piece.size);
    offset_ = piece.offset;
    piece.offset += size;
    piece.size -= size;
    if (piece.size == 0) ++piece_;
  }
  Block block{offset_, bytes_.take(size)};
  offset_ += size;
  stored_ -= size;
  return block;
}

}  // namespace

std::unique_ptr<Entries> open_tar_entries(Decoder& decoder, TarEnd end) {
  return std::make_unique<TarEntries>(decoder, end);
}

}  // namespace nodestage
