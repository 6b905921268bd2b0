#include "daemon/worker/decode/deflate_marks.hpp"

#include <algorithm>

namespace nodestage {

void DeflateMarks::begin(std::size_t window, std::size_t most) {
  runs_.assign(1, {0, 0, static_cast<std::uint16_t>(window)});
  end_ = window;
  most_ = most;
}

// What repeats itself is known piece by piece. Most of that is one byte.
void DeflateMarks::follow(std::uint32_t at, std::uint32_t distance, std::uint32_t length) {
  if (distance == 1) return fill(at - distance, at, length);
  while (length > 0 && !is_full()) {
    const std::uint32_t piece = std::min(length, distance);
    copy(at - distance, at, piece);
    at += piece;
    length -= piece;
  }
}

// Returns the first run that ends behind it.
std::size_t DeflateMarks::find(std::uint32_t source) const {
  const auto first = std::partition_point(runs_.begin(), runs_.end(),
                                          [&](const Run& run) { return run.end() <= source; });
  return static_cast<std::size_t>(first - runs_.begin());
}

// `at` is not before the source's end.
void DeflateMarks::copy(std::uint32_t source, std::uint32_t at, std::uint32_t length) {
  const std::uint32_t source_end = source + length;
  for (std::size_t i = find(source); i < runs_.size() && runs_[i].at < source_end; ++i) {
    const Run run = runs_[i];
    const std::uint32_t begin = std::max(run.at, source);
    const std::uint32_t end = std::min(run.end(), source_end);
    if (begin >= end) break;
    const std::uint32_t from = run.is_one ? run.from : run.from + (begin - run.at);
    add({at + (begin - source), static_cast<std::uint16_t>(from),
         static_cast<std::uint16_t>(end - begin), run.is_one});
  }
}

void DeflateMarks::fill(std::uint32_t source, std::uint32_t at, std::uint32_t length) {
  const std::size_t i = find(source);
  if (i == runs_.size() || runs_[i].at > source) return;
  const Run run = runs_[i];
  const std::uint32_t from = run.is_one ? run.from : run.from + (source - run.at);
  add({at, static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(length), true});
}

void DeflateMarks::add(const Run& run) {
  Run& last = runs_.back();
  const std::size_t next = last.is_one ? last.from : std::size_t{last.from} + last.length;
  const bool is_more = runs_.size() > 1 && last.end() == run.at && last.is_one == run.is_one &&
                       next == run.from && last.length + run.length <= UINT16_MAX;
  if (is_more) {
    last.length = static_cast<std::uint16_t>(last.length + run.length);
  } else {
    runs_.push_back(run);
  }
  end_ = run.end();
}

}  // namespace nodestage
