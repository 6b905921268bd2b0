// DeflateMarks: which of the bytes that are decoded from the middle of a stream repeat some that
// lie before it, and which ones. They are few in data that hardly compress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nodestage {

// Positions count from where the unknown window begins, whose bytes count as decoded.
class DeflateMarks {
 public:
  // `length` bytes from `at` on are those of the window from `from` on, or all the one at `from`.
  struct Run {
    std::uint32_t at;
    std::uint16_t from;
    std::uint16_t length;
    bool is_one = false;
    [[nodiscard]] std::uint32_t end() const { return at + length; }
  };
  static constexpr bool k_is_on = true;

  // At the end of a window of so many unknown bytes. There is room for `most` runs.
  void begin(std::size_t window, std::size_t most);

  // What was decoded at `at` repeats what lies `distance` before.
  void repeat(std::size_t at, std::uint32_t distance, std::uint32_t length) {
    if (at - distance < end_) follow(static_cast<std::uint32_t>(at), distance, length);
  }

  // There were more runs than there is room for: the others are missing.
  [[nodiscard]] bool is_full() const { return runs_.size() > most_; }
  // In order. The first one is the window itself.
  [[nodiscard]] std::span<const Run> runs() const { return runs_; }

 private:
  void follow(std::uint32_t at, std::uint32_t distance, std::uint32_t length);
  void copy(std::uint32_t source, std::uint32_t at, std::uint32_t length);
  void fill(std::uint32_t source, std::uint32_t at, std::uint32_t length);
  [[nodiscard]] std::size_t find(std::uint32_t source) const;
  void add(const Run& run);

  std::vector<Run> runs_;
  std::size_t most_ = 0;
  std::size_t end_ = 0;  // of the last run
};

// Nothing precedes the data.
struct NoMarks {
  static constexpr bool k_is_on = false;
  static void repeat(std::size_t, std::uint32_t, std::uint32_t) {}
};

}  // namespace nodestage
