#include "daemon/worker/image/superblock.hpp"

#include <unistd.h>

#include <array>
#include <string>

#include "common/os/file.hpp"
#include "common/text/squashfs_image.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_superblock_bytes = 96;

}  // namespace

Error damaged(const char* what) {
  return fault(EIO, std::string("the squashfs image is damaged: ") + what,
               "Make it again, or copy it again if its source is whole");
}

Result<Superblock> read_superblock(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);  // what fstat calls is not allowed in the sandbox
  if (size < 0) return system_error("lseek");
  std::array<std::byte, k_superblock_bytes> raw{};
  TRY_ASSIGN(const std::size_t got, pread_all(fd, raw, 0));
  TRY(check_image("the image", {reinterpret_cast<const char*>(raw.data()), got},
                  static_cast<std::uint64_t>(size)));
  const Bytes bytes(raw);
  Superblock super;
  super.inodes = little_endian(bytes, 4);
  super.block_size = little_endian(bytes, 12);
  super.fragments = little_endian(bytes, 16);
  super.format = static_cast<BlockFormat>(little_endian<std::uint16_t>(bytes, 20));
  super.root = little_endian<std::uint64_t>(bytes, 32);
  super.bytes = little_endian<std::uint64_t>(bytes, 40);
  super.inode_table = little_endian<std::uint64_t>(bytes, 64);
  super.directory_table = little_endian<std::uint64_t>(bytes, 72);
  super.fragment_table = little_endian<std::uint64_t>(bytes, 80);
  if (super.inode_table >= super.directory_table || super.directory_table > super.bytes)
    return damaged("its tables are not where they can be");
  return super;
}

}  // namespace nodestage
