// The superblock of a squashfs image: its first 96 bytes, which say where its tables are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/result.hpp"
#include "daemon/worker/image/block_codec.hpp"

namespace nodestage {

struct Superblock {
  std::uint32_t inodes = 0;
  std::uint32_t block_size = 0;
  std::uint32_t fragments = 0;
  BlockFormat format = BlockFormat::gzip;
  std::uint64_t root = 0;   // the id of an inode
  std::uint64_t bytes = 0;  // of the image; a file may be longer
  std::uint64_t inode_table = 0;
  std::uint64_t directory_table = 0;
  std::uint64_t fragment_table = 0;
};

// Reads and checks it (common/text/squashfs_image.hpp): the image is whole, and its numbers are
// within the limits of the format.
Result<Superblock> read_superblock(int fd);

// The fault of an image whose content contradicts itself.
Error damaged(const char* what);

}  // namespace nodestage
