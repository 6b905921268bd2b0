// SquashImage: reads a squashfs image (version 4) by an open file.
//
// Every byte of an image is hostile: no number in it is trusted further than the file's size, a
// block's size, or the limits of the format. A damaged image gives faults with the code EIO, and
// nothing is allocated by what it claims.
//
// It reads what a job needs of a data set. Owners and extended attributes are not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "daemon/worker/image/block_cache.hpp"
#include "daemon/worker/image/block_codec.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_image_name = 256;  // by the format

// Where an inode, or the next byte of a table, is: a block of metadata, by its place in the image,
// and a byte in it as unpacked.
struct ImagePlace {
  std::uint64_t block = 0;
  std::size_t offset = 0;
};

// What is known of a file, a directory, or anything else in an image.
struct ImageNode {
  std::uint64_t id = 0;     // of the inode in this image
  std::uint32_t mode = 0;   // with its type
  std::uint32_t links = 1;  // names that lead here
  std::uint32_t mtime = 0;
  std::uint32_t number = 0;  // as the image numbers its inodes
  std::uint64_t size = 0;    // of a file's data, a link's text, a directory's list
  std::uint32_t device = 0;  // as makedev() of Linux
  // A file's data, or a directory's list.
  std::uint64_t start = 0;
  std::uint32_t fragment = 0;
  std::uint32_t offset = 0;
  std::uint32_t index_count = 0;
  std::uint32_t parent = 0;  // ImageNode::number of a directory's parent
  ImagePlace rest;           // behind the inode: sizes of blocks, a link's text, an index
};

struct ImageEntry {
  std::string_view name;
  std::uint64_t id = 0;
  std::uint32_t number = 0;
  std::uint32_t mode = 0;  // the type alone
  std::uint64_t next = 0;  // the position behind the entry
};

struct ImageTotals {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  std::uint32_t block_size = 0;
};

// For one thread. another() makes one for another thread, which shares what was unpacked.
class SquashImage {
 public:
  // Reads from `fd`, a regular file that is borrowed and must stay open. A fault's text says what
  // is wrong with the image, for a person, and does not name it.
  static Result<SquashImage> open(int fd);
  [[nodiscard]] SquashImage another() const { return SquashImage(shared_); }

  [[nodiscard]] std::uint64_t root() const;
  [[nodiscard]] ImageTotals totals() const;

  // What follows may pass only so many blocks of metadata: they can be 21 bytes long and unpack to
  // 8 KiB, and a request of the kernel's that lasts cannot be interrupted.
  void begin_request() { blocks_left_ = k_max_blocks_of_request; }

  Result<ImageNode> node(std::uint64_t id);
  // Returns the inode of that name in a directory; ENOTDIR.
  Result<std::optional<std::uint64_t>> find(const ImageNode& directory, std::string_view name);
  // Gives a directory's entries from a position on, 0 first, to take(const ImageEntry&), until that
  // returns false. The name is valid during the call.
  template <typename Take>
  Status list(const ImageNode& directory, std::uint64_t from, Take take) {
    TRY_ASSIGN(auto entries, entries_from(directory, from));
    while (true) {
      TRY_ASSIGN(const auto entry, next_of(entries));
      if (!entry) return {};
      if (entry->next > from && !take(*entry)) return {};
    }
  }
  // Fills `out` from a byte of a file on; fewer bytes at the file's end.
  Result<std::size_t> read(const ImageNode& file, std::uint64_t offset, std::span<std::byte> out);
  Result<std::string> link_text(const ImageNode& link);

 private:
  struct Shared;
  // A block of data as it lies in the image; `size`: unpacked, where that is known, or 0.
  struct DataBlock {
    std::uint64_t at = 0;
    std::uint32_t head = 0;
    std::size_t size = 0;
  };

  // Reads metadata, which lie in blocks, on and on.
  struct Stream {
    ImagePlace at;
    BlockCache::Block block;  // of `at`, once it was read
  };
  // The list of a directory, between two entries.
  struct Entries {
    Stream stream;
    std::uint64_t position = 0;
    std::uint64_t end = 0;
    // The run of entries that share these two.
    std::uint32_t left = 0;
    std::uint64_t start = 0;
    std::uint32_t number = 0;
    char name[k_max_image_name];
  };

  explicit SquashImage(std::shared_ptr<Shared> shared);
  Status read_stored(std::uint64_t at, std::span<std::byte> into) const;
  Status load_metadata(std::uint64_t at, ImageBlock& block);
  Status load_data(std::uint64_t at, std::size_t stored, ImageBlock& block);
  Status read(Stream& stream, std::span<std::byte> into);
  Status skip(Stream& stream, std::uint64_t bytes);
  Result<Bytes> some_of(Stream& stream, std::uint64_t most);
  Result<Entries> entries_of(const ImageNode& directory) const;
  Result<Entries> entries_from(const ImageNode& directory, std::uint64_t from);
  template <typename Before>
  Status skip_by_index(const ImageNode& directory, Entries& entries, Before before);
  Result<std::optional<ImageEntry>> next_of(Entries& entries);
  Status begin_run(Entries& entries);
  Result<DataBlock> block_of(const ImageNode& file, std::uint64_t index);
  Result<DataBlock> fragment_of(const ImageNode& file);
  Status read_part(const DataBlock& block, std::uint64_t from, std::span<std::byte> out);

  static constexpr std::uint32_t k_max_blocks_of_request = 65'536;  // 512 MiB of metadata
  std::shared_ptr<Shared> shared_;
  BlockCodec codec_;
  std::uint32_t blocks_left_ = k_max_blocks_of_request;
  std::unique_ptr<std::byte[]> stored_;  // a block as it is in the image
};

}  // namespace nodestage
