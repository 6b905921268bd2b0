#include "daemon/worker/read/source_blocks.hpp"

namespace nodestage {

SourceBlocks::SourceBlocks(const Source& source, std::vector<Slice> first,
                           const ReadAheadLimits& limits)
    : first_(std::make_move_iterator(first.begin()), std::make_move_iterator(first.end())),
      is_all_(source.position() >= source.size()),
      ahead_(source, source.position(), limits) {}

Status SourceBlocks::start() { return is_all_ ? Status() : ahead_.start(); }

Result<Slice> SourceBlocks::next() {
  if (!first_.empty()) {
    Slice block = std::move(first_.front());
    first_.pop_front();
    return block;
  }
  return is_all_ ? Result<Slice>(Slice()) : ahead_.next();
}

}  // namespace nodestage
