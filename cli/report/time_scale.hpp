// TimeScale: where a moment lies on a drawing. Long stretches in which nothing is to be seen are
// folded to a fixed width, so that a minute of staging can be read beside a week of work.
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
    std::string text;  // from the first moment on
  };

  // `seen`: where something is to be seen, in any order; of no length: a moment. `width`: of all.
  TimeScale(std::vector<Interval> seen, double width);

  // Moments outside are moved to the ends.
  [[nodiscard]] double at(std::uint64_t moment) const;
  // In order, without gaps; one at least.
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] std::vector<Tick> ticks() const;

 private:
  void lay_out(double width);
  std::vector<Piece> pieces_;
};

}  // namespace nodestage
