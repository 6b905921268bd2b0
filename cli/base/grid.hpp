// Grid: a table of text, whose columns are as wide as their widest cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

class Grid {
 public:
  // The first `left` columns are aligned to the left, the others to the right.
  Grid(std::vector<std::string> head, std::size_t left) : left_(left) { add(std::move(head)); }
  // Adds a row, whose cells are printable.
  void add(std::vector<std::string> row);
  // Returns lines with their newlines, without blanks at their ends.
  [[nodiscard]] std::string text() const;

 private:
  std::size_t left_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns the width of printable text in characters, assuming one column for each.
std::size_t width_of(const std::string& text);

// Parses a date or time as a user types it.

// Returns seconds since 1970 of "@SECONDS", "2026-11-21" or "2026-11-21T15:30:00" (UTC).
Result<std::int64_t> parse_moment(const std::string& text);

}  // namespace nodestage
