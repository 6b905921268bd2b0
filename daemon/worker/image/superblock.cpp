#include "daemon/worker/image/superblock.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <string>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_superblock_bytes = 96;
constexpr std::uint32_t k_squashfs_magic = 0x73717368;  // "hsqs"
constexpr std::uint32_t k_min_image_block = 4096;
constexpr std::uint32_t k_max_image_block = 1 << 20;
constexpr const char* k_make_again = "Make it again, or copy it again if its source is whole";

Result<BlockFormat> block_format(std::uint16_t number) {
  constexpr BlockFormat k_formats[] = {BlockFormat::gzip, BlockFormat::lzo, BlockFormat::xz,
                                       BlockFormat::lz4, BlockFormat::zstd};
  for (const BlockFormat format : k_formats)
    if (static_cast<std::uint16_t>(format) == number) return format;
  return fault(ENOTSUP, "the squashfs image is compressed in a way that is not supported",
               "Make it with mksquashfs -comp zstd, gzip, xz, lz4 or lzo");
}

Status check_version(std::uint16_t major, std::uint16_t minor) {
  if (major == 4 && minor == 0) return {};
  return fault(ENOTSUP,
               "it is a squashfs image of version " + std::to_string(major) + "." +
                   std::to_string(minor) + ", and only 4.0 is supported",
               "Make it again with a later mksquashfs");
}

Status check_sizes(const Superblock& super, std::uint16_t block_log, std::uint64_t file_bytes) {
  if (super.bytes > file_bytes)
    return fault(EIO,
                 "the squashfs image is cut off: the file has " + human_bytes(file_bytes) + " of " +
                     human_bytes(super.bytes),
                 k_make_again);
  const bool is_valid =
      super.block_size >= k_min_image_block && super.block_size <= k_max_image_block &&
      std::has_single_bit(super.block_size) && std::countr_zero(super.block_size) == block_log;
  if (!is_valid) return damaged("the size of its blocks is not valid");
  if (super.inode_table >= super.directory_table || super.directory_table > super.bytes)
    return damaged("its tables are not where they can be");
  return {};
}

}  // namespace

Error damaged(const char* what) {
  return fault(EIO, std::string("the squashfs image is damaged: ") + what, k_make_again);
}

Result<Superblock> read_superblock(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);  // what fstat calls is not allowed in the sandbox
  if (size < 0) return system_error("lseek");
  std::array<std::byte, k_superblock_bytes> raw{};
  TRY_ASSIGN(const std::size_t got, pread_all(fd, raw, 0));
  const Bytes bytes(raw);
  if (got < raw.size() || little_endian(bytes) != k_squashfs_magic)
    return fault(EINVAL, "it is not a squashfs image", "Make one with mksquashfs");
  TRY(check_version(little_endian<std::uint16_t>(bytes, 28),
                    little_endian<std::uint16_t>(bytes, 30)));
  Superblock super;
  super.inodes = little_endian(bytes, 4);
  super.block_size = little_endian(bytes, 12);
  super.fragments = little_endian(bytes, 16);
  TRY_ASSIGN(super.format, block_format(little_endian<std::uint16_t>(bytes, 20)));
  super.root = little_endian<std::uint64_t>(bytes, 32);
  super.bytes = little_endian<std::uint64_t>(bytes, 40);
  super.inode_table = little_endian<std::uint64_t>(bytes, 64);
  super.directory_table = little_endian<std::uint64_t>(bytes, 72);
  super.fragment_table = little_endian<std::uint64_t>(bytes, 80);
  TRY(check_sizes(super, little_endian<std::uint16_t>(bytes, 22),
                  static_cast<std::uint64_t>(size)));
  return super;
}

}  // namespace nodestage
