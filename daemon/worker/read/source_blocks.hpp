// SourceBlocks: a whole source file in blocks: those that were read when it was recognised, then
// what a ReadAhead fetches.
#pragma once

#include <deque>
#include <optional>

#include "daemon/worker/read/read_ahead.hpp"

namespace nodestage {

class SourceBlocks {
 public:
  // `first` are the source's first blocks, up to its position(). The source is borrowed.
  SourceBlocks(const Source& source, std::vector<Slice> first, const ReadAheadLimits& limits);

  // Before the first next(). Nothing is begun when the source ends where `first` does.
  Status start();

  // As ReadAhead's.
  Result<Slice> next();
  void stop() { ahead_.stop(); }

 private:
  std::deque<Slice> first_;
  bool is_all_;  // in first_
  ReadAhead ahead_;
};

}  // namespace nodestage
