// The index of a gzip file, which lies beside it: places where a block begins, and what precedes
// them, so that several threads can decode from there. `nodestage pack --index` writes it
// (gzip_indexer.hpp). All numbers are little-endian.
//
//   16 bytes "nodestage-index\n" | u32 version: 1 | u32 coding: 1, gzip
//   u64 size of the gzip file | i64 its modification time in seconds
//   u64 FNV-1a of 16 ranges of it, of 4 KiB each, from its start to its end
//   u32 CRC-32 of all that precedes
//
// Then the places in their order, and after the last one a place whose numbers are all 0:
//
//   u64 bit of the file | u64 bytes of the member's data before it
//   u32 which member, from 0 | u32 size of the window
//   so many bytes: a zstd frame of the 32 KiB of data before it
//   u32 CRC-32 of all this
//
// Nothing in an index is trusted. What is decoded from a place counts only if the data before it
// ended exactly there, and end with exactly these 32 KiB.
//
// Golden test: tests/unit/test_gzip_index.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/text/archive_names.hpp"
#include "daemon/worker/basis/bytes.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

inline constexpr std::size_t k_index_window = std::size_t{32} * 1024;
// From a place to the next one, at least: bytes of the file, and of the data.
inline constexpr std::size_t k_least_indexed_input = 1024;
inline constexpr std::size_t k_least_indexed_output = k_index_window;

struct GzipPlace {
  std::uint64_t bit = 0;  // of the file
  std::uint64_t data = 0;
  std::uint32_t member = 0;
  std::vector<std::byte> window;
};

// What lies between two places of a member.
struct GzipStretch {
  std::uint64_t begin;  // in bits of the file, as the end
  std::uint64_t end;
  std::size_t data;
  std::vector<std::byte> window;
};

struct GzipIndexHead {
  std::uint64_t size = 0;
  std::int64_t mtime = 0;
  std::uint64_t sample = 0;
};

// Of a file, as it is now.
Result<GzipIndexHead> index_head_of(const Source& file);
std::string encode_index_head(const GzipIndexHead& head);
// Its window is compressed. One without a window is the end.
Result<std::string> encode_place(const GzipPlace& place);

class GzipIndex {
 public:
  struct Found {
    std::shared_ptr<GzipIndex> index;  // null: there is none, or it is not this file's
    std::string note;                  // for the user, why one that is there is ignored
  };
  // Opens and checks the one beside `file`, up to its first place; one without any is damaged.
  // Reads what it has of each other place when it is needed.
  static Found beside(const Source& file);
  // The same for one that is open.
  static Found check(Source index, const Source& file);

  // What a thread is given next: so many bytes of the file, from `offset` on. One thread at a time,
  // in order.
  struct Piece {
    std::size_t size;
    std::optional<GzipStretch> stretch;  // what lies there, if it lies between two places
  };
  Piece piece_at(std::uint64_t offset, std::size_t most_input, std::size_t most_output);

  // From any thread: it does not fit, and is not used any more.
  void drop() { trouble_ = Trouble::no_fit; }
  // Why it was not used up to its end; empty if it was, or was not needed.
  [[nodiscard]] std::string note() const;

 private:
  enum class Trouble { none, other_file, version, damaged, no_fit };
  GzipIndex(Source index, const Source& file)
      : index_(std::move(index)), file_(file.path()), file_size_(file.size()) {}
  Result<Trouble> check_head(const Source& file);
  Result<std::vector<std::byte>> read(std::size_t size);
  void go_on();
  std::optional<GzipPlace> take_place();
  static std::string note_of(const std::string& file, std::string_view cause);
  static std::string_view cause_of(Trouble trouble);

  Source index_;
  const std::string file_;
  const std::uint64_t file_size_;
  std::uint64_t read_ = 0;         // of the index
  std::optional<GzipPlace> here_;  // where the last piece began, or before
  std::optional<GzipPlace> next_;
  std::atomic<Trouble> trouble_ = Trouble::none;
};

}  // namespace nodestage
