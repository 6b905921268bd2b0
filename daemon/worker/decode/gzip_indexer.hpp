// GzipIndexer: makes the index of a gzip file (gzip_index.hpp), which is decoded for that, from its
// start to its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/worker/decode/decode_faults.hpp"
#include "daemon/worker/decode/deflate_blocks.hpp"
#include "daemon/worker/decode/gzip_index.hpp"
#include "daemon/worker/read/compressed_input.hpp"

namespace nodestage {

// Of data, from a place to the next one.
inline constexpr std::size_t k_index_spacing = std::size_t{2} << 20;

class GzipIndexer {
 public:
  using Write = std::function<Status(std::string_view)>;

  // The file is borrowed.
  explicit GzipIndexer(const Source& file, std::size_t spacing = k_index_spacing);

  // Writes the index. A fault: the file is damaged or cannot be read, or `write` returned it. The
  // checksums of all members were verified.
  Status run(const Write& write);
  // From any thread: run() returns soon, with the fault ECANCELED.
  void stop() { stop_ = true; }
  // From any thread: the position in the file up to which it has been decoded.
  [[nodiscard]] std::uint64_t position() const { return position_; }

  // After run(). One place of a member alone is not written: nothing lies between two places.
  [[nodiscard]] std::uint64_t places() const { return places_; }
  // Of the file as it was when run() began.
  [[nodiscard]] const GzipIndexHead& head() const { return head_; }
  [[nodiscard]] std::uint64_t data() const { return all_data_; }

 private:
  using Blocks = DeflateBlocks<Deflate>;

  void read_from(std::uint64_t offset);
  Result<Bytes> front();
  Status take_member(const Write& write);
  Status take_header();
  Status take_data(const Write& write);
  Status take_trailer();
  Status take_place(Bytes used, const Write& write);
  void remember(Bytes bytes);
  [[nodiscard]] std::uint64_t bit() const { return 8 * input_.offset() - blocks_->bits_held(); }

  const Source& file_;
  const std::size_t spacing_;
  const DecodeFaults faults_;
  CompressedInput input_;
  const std::unique_ptr<Blocks> blocks_;  // large
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> position_ = 0;

  std::uint32_t member_ = 0;
  std::uint32_t crc_ = 0;  // of the member's data
  std::vector<std::byte> window_;
  std::uint64_t data_ = 0;
  std::uint64_t placed_data_ = 0;   // before its last place
  std::uint64_t placed_input_ = 0;  // before the last place of all
  std::uint64_t places_ = 0;
  std::string first_;  // place of the member, until it has a second one
  GzipIndexHead head_;
  std::uint64_t all_data_ = 0;
};

}  // namespace nodestage
