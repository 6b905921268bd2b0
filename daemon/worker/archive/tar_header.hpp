// One 512-byte header block of a tar archive, whichever program wrote it.
//
//   v7     name 0/100, mode 100/8, uid, gid, size 124/12, mtime 136/12, checksum 148/8, type 156,
//          linkname 157/100
//   ustar  "ustar" 257, prefix 345/155 (POSIX.1-1988, pax(1))
//   gnu    "ustar  " 257; old sparse files: 4 pieces 386, is-extended 482, real size 483/12; in an
//          extension block 21 pieces 0, is-extended 504; a piece is offset/12, size/12 (the manual
//          of GNU tar, "Basic Tar Format")
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

inline constexpr std::size_t k_tar_block = 512;

// A number field: blanks, octal digits, then a blank or NUL; or base 256, signed, if the first bit
// is set. An empty field is 0. Empty result if it is not a number or does not fit.
std::optional<std::int64_t> tar_number(std::string_view field);

class TarHeader {
 public:
  enum class Dialect { v7, ustar, gnu };

  // Borrows 512 bytes.
  explicit TarHeader(Bytes block)
      : block_(reinterpret_cast<const char*>(block.data()), k_tar_block) {}

  [[nodiscard]] bool is_zero() const;
  // The sum of unsigned bytes, or of signed ones, as some old writers computed it.
  [[nodiscard]] bool has_right_checksum() const;

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

}  // namespace nodestage
