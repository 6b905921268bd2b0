// BlockCodec: unpacks the blocks of a squashfs image, each of which is compressed by itself.
//
// The blocks are hostile. Each library here is given the size of its input and the room for its
// output, and writes nothing beyond that room. Checksums of a zlib stream are not verified.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

// As an image's superblock numbers them. check_image() (common/text/squashfs_image.hpp) refuses the
// others.
enum class BlockFormat : std::uint16_t { gzip = 1, xz = 4, lz4 = 5, zstd = 6 };

// For one thread. Move-only.
class BlockCodec {
 public:
  explicit BlockCodec(BlockFormat format);
  BlockCodec(BlockCodec&& other) noexcept;
  BlockCodec& operator=(BlockCodec&& other) noexcept;
  ~BlockCodec();

  // Returns the number of bytes that a block has unpacked. Nothing: it is damaged, or larger than
  // `out`.
  std::optional<std::size_t> unpack(Bytes in, std::span<std::byte> out);

 private:
  struct Contexts;
  BlockFormat format_;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace nodestage
