#include "cli/report/time_scale.hpp"

#include <algorithm>
#include <limits>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

// Folds a gap that is longer than this share of all intervals with something to show.
constexpr double k_folded_share = 0.2;
constexpr double k_folded_width = 64;
constexpr double k_tick_width = 84;

// Later moments are moved to this one, so that there is always another one after it.
constexpr std::uint64_t k_last_moment = std::numeric_limits<std::uint64_t>::max() - 1;

constexpr std::uint64_t k_second = 1000;
constexpr std::uint64_t k_minute = 60 * k_second;
constexpr std::uint64_t k_hour = 60 * k_minute;
constexpr std::uint64_t k_steps[] = {
    100,           200,           500,           k_second,     2 * k_second, 5 * k_second,
    10 * k_second, 15 * k_second, 30 * k_second, k_minute,     2 * k_minute, 5 * k_minute,
    10 * k_minute, 15 * k_minute, 30 * k_minute, k_hour,       2 * k_hour,   6 * k_hour,
    12 * k_hour,   24 * k_hour,   48 * k_hour,   168 * k_hour, 720 * k_hour, 8760 * k_hour};

double length_of(const TimeScale::Piece& piece) {
  return static_cast<double>(piece.to - piece.from);
}

std::string tick_text(std::uint64_t ms) {
  if (ms % k_second == 0 && ms < k_minute) return std::to_string(ms / k_second) + " s";
  return human_duration(ms);
}

}  // namespace

TimeScale::TimeScale(std::vector<Interval> seen, double width) {
  for (Interval& interval : seen)
    interval = {std::min(interval.from, k_last_moment), std::min(interval.to, k_last_moment)};
  std::sort(seen.begin(), seen.end(),
            [](const Interval& a, const Interval& b) { return a.from < b.from; });
  if (seen.empty()) seen.push_back({0, 1});
  double seen_ms = 0;
  std::vector<Interval> gaps;
  std::uint64_t end = seen.front().from;
  for (const Interval& interval : seen) {
    if (interval.from > end) gaps.push_back({end, interval.from});
    const std::uint64_t from = std::max(interval.from, end);
    end = std::max(end, interval.to);
    seen_ms += static_cast<double>(end - std::min(from, end));
  }
  std::uint64_t from = seen.front().from;
  if (end == from) ++end;
  for (const Interval& gap : gaps) {
    if (static_cast<double>(gap.to - gap.from) <= k_folded_share * seen_ms) continue;
    if (gap.from > from) pieces_.push_back({from, gap.from, 0, 0, false});
    pieces_.push_back({gap.from, gap.to, 0, 0, true});
    from = gap.to;
  }
  if (end > from) pieces_.push_back({from, end, 0, 0, false});
  lay_out(width);
}

void TimeScale::lay_out(double width) {
  double folded = 0;
  double open_ms = 0;
  for (const Piece& piece : pieces_) {
    if (piece.is_folded) ++folded;
    if (!piece.is_folded) open_ms += length_of(piece);
  }
  const double most = open_ms == 0 ? width : std::min(k_folded_width * folded, width / 2);
  const double fold = folded == 0 ? 0 : most / folded;
  double left = 0;
  for (Piece& piece : pieces_) {
    piece.left = left;
    piece.width = piece.is_folded ? fold : (width - folded * fold) * length_of(piece) / open_ms;
    left += piece.width;
  }
}

double TimeScale::at(std::uint64_t moment) const {
  for (const Piece& piece : pieces_) {
    if (moment > piece.to) continue;
    if (moment <= piece.from) return piece.left;
    return piece.left + piece.width * static_cast<double>(moment - piece.from) / length_of(piece);
  }
  return pieces_.back().left + pieces_.back().width;
}

std::vector<TimeScale::Tick> TimeScale::ticks() const {
  std::vector<Tick> ticks;
  const std::uint64_t begin = pieces_.front().from;
  for (const Piece& piece : pieces_) {
    if (piece.is_folded || piece.width < k_tick_width) continue;
    const double wanted = length_of(piece) * k_tick_width / piece.width;
    const auto* const step =
        std::find_if(std::begin(k_steps), std::end(k_steps),
                     [wanted](std::uint64_t ms) { return static_cast<double>(ms) >= wanted; });
    if (step == std::end(k_steps)) continue;
    const std::uint64_t first = (piece.from - begin) / *step + ((piece.from - begin) % *step != 0);
    const std::uint64_t last = (piece.to - begin) / *step;
    for (std::uint64_t i = first; i <= last; ++i)
      ticks.push_back({at(begin + i * *step), tick_text(i * *step)});
  }
  return ticks;
}

}  // namespace nodestage
