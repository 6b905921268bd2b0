// DeflateChunk: deflate data from the middle of a stream, decoded without what precedes them.
//
// The decoder searches for a block and begins there. What a match repeats from before that block is
// not known yet: DeflateMarks has where such bytes lie, and where in the window of 32 KiB before
// the block, from which they are put in later.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/gzip/deflate_blocks.hpp"
#include "daemon/worker/gzip/deflate_code.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// Where a block of deflate data (RFC 1951) begins, searched for in the middle of them.

struct BlockStart {
  std::uint64_t bit;
  // Of a stored block: it may begin as well at any of so many bits before this one, all of them 0.
  unsigned zeros_before;
};

// Searches `data` from `from` on, up to the bit `end`, for a block that is not the last one, and
// has codes of its own or stored bytes that another such block follows. Bytes that look like it may
// be none, which is rare. Returns nothing soon after `stop` is set, and when `headers` is 0: this
// is how many more headers it may look at closely, since data can be made to look like one
// everywhere.
std::optional<BlockStart> find_block(Bytes data, std::uint64_t from, std::uint64_t end,
                                     const std::atomic<bool>& stop, std::uint64_t& headers);

class DeflateChunk {
 public:
  // Decodes whole blocks into the memory of `blocks`: from the first one that is found before the
  // bit `limit`, up to the first one that begins there or later. It ends before that at the last
  // block of the stream, at a fault, and where data or memory end. False: nothing was decoded, it
  // is not worth it (blocks are too small, the search costs too much, there are more than
  // `most_marks` runs of bytes that are not known), or `stop` was set.
  bool decode(Bytes data, std::uint64_t limit, std::vector<DecodedBlock> blocks,
              std::size_t most_marks, const std::atomic<bool>& stop);

  // Where it began and ended, in bits. It may begin at any of `zeros_before` bits before.
  [[nodiscard]] const BlockStart& begin() const { return begin_; }
  [[nodiscard]] std::uint64_t end() const { return at_.bit; }
  // The memory did not suffice.
  [[nodiscard]] bool is_too_large() const { return is_too_large_; }
  // How many headers of blocks the search has looked at.
  [[nodiscard]] std::uint64_t headers() const { return headers_; }
  // Runs of bytes that are not known.
  [[nodiscard]] std::size_t marks() const { return marks_.size(); }
  // Of the memory: how much has been filled.
  [[nodiscard]] std::size_t filled() const;

  // Puts in what was not known, from `window`. The blocks are what was decoded. Nothing: bytes from
  // before the window are needed, so the data are damaged, or were no block.
  std::optional<std::vector<DecodedBlock>> resolve(Bytes window);

 private:
  struct Place {
    std::uint64_t bit = 0;
    std::size_t blocks = 0;  // begun
    std::size_t size = 0;    // of the last one
  };
  using Blocks = DeflateBlocks<Deflate, DeflateMarks>;

  bool decode_from(Bytes data, std::uint64_t limit, std::size_t most_marks,
                   const std::atomic<bool>& stop);
  void run(Blocks& from, Bytes data, std::uint64_t limit, const std::atomic<bool>& stop);
  bool append(Bytes bytes);
  void put_in(std::size_t at, std::size_t length, Bytes from, bool is_one);
  void cut();

  std::vector<DecodedBlock> blocks_;
  std::size_t begun_ = 0;
  std::vector<DeflateMarks::Run> marks_;
  BlockStart begin_{};
  Place at_;
  bool is_too_large_ = false;
  bool is_given_up_ = false;
  std::size_t ends_ = 0;  // of blocks, seen so far
  std::uint64_t headers_ = 0;
};

}  // namespace nodestage
