// One 512-byte header block of a tar archive, whichever program wrote it.
//
//   v7     name 0/100, mode 100/8, uid, gid, size 124/12, mtime 136/12, checksum 148/8, type 156,
//          linkname 157/100
//   ustar  "ustar" 257, prefix 345/155 (POSIX.1-1988, pax(1))
//   gnu    "ustar  " 257; old sparse files: 4 pieces 386, is-extended 482, real size 483/12; in an
//          extension block 21 pieces 0, is-extended 504; a piece is offset/12, size/12 (the manual
//          of GNU tar, "Basic Tar Format")
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {

// DecodedBytes: a decoder's blocks as one run of bytes, for readers of a format.
// One thread. Faults are the decoder's; if the input ends before the requested bytes, cut_off().
class DecodedBytes {
 public:
  explicit DecodedBytes(Decoder& decoder) : decoder_(decoder) {}  // borrowed

  // Whether there is more; if so, left() is not empty.
  Result<bool> fill() {
    if (at_ < block_.size()) return true;
    block_ = {};
    at_ = 0;
    TRY_ASSIGN(block_, decoder_.next());
    return !block_.empty();
  }

  // What is left of the current block. skip() passes over its first `bytes`; take() returns them
  // and shares their memory.
  [[nodiscard]] Bytes left() const { return block_.bytes().subspan(at_); }
  void skip(std::size_t bytes) { at_ += bytes; }
  [[nodiscard]] Slice take(std::size_t bytes) {
    Slice taken = block_.part(at_, bytes);
    skip(bytes);
    return taken;
  }

  // The following two work across blocks.
  Status pass_over(std::uint64_t bytes) {
    while (bytes > 0) {
      TRY_ASSIGN(const std::size_t step, next_step(bytes));
      at_ += step;
      bytes -= step;
    }
    return {};
  }
  Status take_text(std::string& text, std::uint64_t bytes) {
    text.clear();
    while (text.size() < bytes) {
      TRY_ASSIGN(const std::size_t step, next_step(bytes - text.size()));
      text.append(reinterpret_cast<const char*>(left().data()), step);
      at_ += step;
    }
    return {};
  }

 private:
  Result<std::size_t> next_step(std::uint64_t bytes) {
    TRY_ASSIGN(const bool is_there, fill());
    if (!is_there) return decoder_.cut_off();
    return static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left().size()));
  }

  Decoder& decoder_;
  Slice block_;
  std::size_t at_ = 0;  // in block_
};

inline constexpr std::size_t k_tar_block = 512;

// A number field: blanks, octal digits, then a blank or NUL; or base 256, signed, if the first bit
// is set. An empty field is 0. Empty result if it is not a number or does not fit.
std::optional<std::int64_t> tar_number(std::string_view field);

class TarHeaderBlock {
 public:
  enum class Dialect { v7, ustar, gnu };

  // Borrows the first 512 bytes.
  explicit TarHeaderBlock(Bytes block)
      : block_(reinterpret_cast<const char*>(block.data()), k_tar_block) {}

  [[nodiscard]] bool is_zero() const;
  // The sum of unsigned bytes, or of signed ones, as some old writers computed it.
  [[nodiscard]] bool has_right_checksum() const;
  [[nodiscard]] std::optional<std::int64_t> checksum() const;

  [[nodiscard]] char type() const { return block_[156]; }
  [[nodiscard]] Dialect dialect() const;
  void get_name(std::string& name) const;  // including its prefix
  [[nodiscard]] std::string_view link() const { return text(157, 100); }
  [[nodiscard]] std::optional<std::int64_t> number(std::size_t at, std::size_t size) const {
    return tar_number(block_.substr(at, size));
  }
  [[nodiscard]] std::optional<std::int64_t> size() const { return number(124, 12); }
  [[nodiscard]] std::int64_t mode() const { return number(100, 8).value_or(0); }
  [[nodiscard]] std::int64_t mtime() const { return number(136, 12).value_or(0); }
  [[nodiscard]] char at(std::size_t offset) const { return block_[offset]; }

 private:
  [[nodiscard]] std::string_view text(std::size_t at, std::size_t size) const;  // up to NUL
  const std::string_view block_;
};

// TarRest: what follows a block of zeros in a tar: padding, another tar as with `cat a.tar b.tar`,
// or bytes that are none.
class TarRest {
 public:
  TarRest(Decoder& decoder, DecodedBytes& bytes) : decoder_(decoder), bytes_(bytes) {}  // borrowed

  // Call it for each entry.
  void begin_entry() { has_entry_ = true; }

  // After a block of zeros: whether another tar follows. If so, its first header is next; if not,
  // all is read. An archive of another kind is a fault, and so is what remains of a tar whose
  // beginning or middle was overwritten.
  Result<bool> find_archive();

  // For the user, or "".
  [[nodiscard]] std::string note() const;

 private:
  enum class Zeros { one, several };  // blocks of them before
  Status judge_junk(Zeros before);

  Decoder& decoder_;
  DecodedBytes& bytes_;
  bool has_entry_ = false;  // the current archive
  bool has_zeros_before_ = false;
  bool has_junk_ = false;
  std::uint64_t archives_ = 1;
};

// The records of a pax extended header: POSIX.1-2001, pax(1) "pax Extended Header".
//
// clang-format off
//   "LENGTH KEY=VALUE\n"...   LENGTH: of the whole record, in decimal; an empty VALUE takes an
//                             earlier one back
//   path, linkpath, size, mtime; hdrcharset does not matter, since names are bytes
//   SCHILY.xattr.NAME (bytes; GNU tar writes % and = of NAME as %25 and %3D), LIBARCHIVE.xattr.NAME
//   (base64; NAME as in a URL), SCHILY.acl.{access,default}: what xattrs.hpp keeps
//   GNU.sparse.{major,minor,name,realsize}           1.0; the map precedes the data
//   GNU.sparse.{size,numblocks,offset,numbytes}      0.0; offset and numbytes are repeated
//   GNU.sparse.{name,size,numblocks,map}             0.1; map: "OFFSET,SIZE,..."
// clang-format on

struct PaxSparse {
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;   // of the file with its holes
  std::vector<std::uint64_t> numbers;  // offset, size, offset, …
  bool has_count = false;              // numblocks: it starts a map of 0.0 or 0.1
};

struct PaxHeader {
  std::optional<std::string> path;
  std::optional<std::string> link;
  std::optional<std::uint64_t> size;
  std::optional<timespec> mtime;

  std::optional<PaxSparse> sparse;
  Xattrs xattrs;

  // Adds the records' values. A fault's `what` is the cause alone.
  Status read(std::string_view records);

 private:
  Status take(std::string_view key, std::string_view value);
  void take_xattr(std::string name, std::string value);
  void take_acl(const char* name, std::string_view text);
  Status take_sparse(std::string_view key, std::string_view value);
};

}  // namespace nodestage
