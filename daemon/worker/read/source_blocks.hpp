// SourceBlocks: a whole source file in blocks: first those that were read to recognize it, then
// what a ReadAhead fetches.
#pragma once

#include <deque>
#include <optional>

#include "daemon/worker/read/read_ahead.hpp"

namespace nodestage {

class SourceBlocks {
 public:
  // `first` has the source's first blocks, up to its position(). The source is borrowed.
  SourceBlocks(const Source& source, std::vector<Slice> first, const ReadAheadLimits& limits);

  // Call it before the first next(). Starts nothing if the source ends where `first` does.
  Status start();

  // Both do as ReadAhead's.
  Result<Slice> next();
  void stop() { ahead_.stop(); }

 private:
  std::deque<Slice> first_;
  bool is_all_;  // everything is in first_
  ReadAhead ahead_;
};

}  // namespace nodestage
