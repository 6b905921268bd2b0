// One header of a cpio archive, in every form that is written today.
//
//   newc  "070701", and crc "070702", then 13 numbers of 8 hexadecimal digits: ino, mode, uid, gid,
//         nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check: 110
//         bytes. Zero to three bytes pad header and name to a multiple of 4, and likewise the data
//         (System V; cpio(5) of the BSDs)
//   odc   "070707", octal digits: dev 6, ino 6, mode 6, uid 6, gid 6, nlink 6, rdev 6, mtime 11,
//         namesize 6, filesize 11: 76 bytes; no padding (POSIX.1-1988)
//   bin   13 words of 16 bits in the writer's byte order: 070707, dev, ino, mode, uid, gid, nlink,
//         rdev, mtime (2, the high one first), namesize, filesize (2, likewise): 26 bytes. Padded
//         to a multiple of 2
//
// The name (with its NUL, which namesize counts) and then the data follow.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nodestage {

enum class CpioForm { none, newc, odc, bin_little, bin_big };  // newc: crc as well

// Takes the first bytes of a header; six are enough.
CpioForm cpio_form(std::string_view start);

constexpr std::size_t cpio_header_bytes(CpioForm form) {
  return form == CpioForm::newc ? 110 : form == CpioForm::odc ? 76 : 26;
}

// Header and name, and then the data, are padded to a multiple of this.
constexpr std::uint64_t cpio_alignment(CpioForm form) {
  return form == CpioForm::newc ? 4 : form == CpioForm::odc ? 1 : 2;
}

struct CpioHeader {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t mode = 0;  // with the type, as in stat(2)
  std::uint64_t links = 0;
  std::uint64_t mtime = 0;                // seconds since 1970
  std::uint64_t name_size = 0;            // bytes, with the NUL
  std::uint64_t size = 0;                 // bytes of data
  std::optional<std::uint64_t> checksum;  // of crc: the sum of the data's bytes, modulo 2^32
};

// `header`: as many bytes as the form has. Empty for another form or a field without a number.
std::optional<CpioHeader> cpio_header(CpioForm form, std::string_view header);

}  // namespace nodestage
