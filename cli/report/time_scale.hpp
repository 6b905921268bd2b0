// TimeScale: maps times to positions in a drawing. Folds long stretches without anything to show to
// a fixed width, so that a minute of staging is visible beside a week of work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nodestage {

class TimeScale {
 public:
  struct Interval {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  struct Piece {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    double left = 0;
    double width = 0;
    bool is_folded = false;
  };
  struct Tick {
    double at = 0;
    std::string text;  // relative to the first moment
  };

  // `seen` are the intervals with something to show, in any order; a moment has length 0. Any
  // numbers are allowed. `width` is the whole width.
  TimeScale(std::vector<Interval> seen, double width);

  // Returns the position of a moment; those outside of the scale are moved to its ends.
  [[nodiscard]] double at(std::uint64_t moment) const;
  // Returns at least one, in order, without gaps.
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] std::vector<Tick> ticks() const;

 private:
  void lay_out(double width);
  std::vector<Piece> pieces_;
};

}  // namespace nodestage
