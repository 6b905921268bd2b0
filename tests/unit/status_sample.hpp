// A job as a node's daemon tells it.
#pragma once

#include "common/wire/protocol.hpp"

namespace nodestage {

inline StatusItem sample_item(ItemState state) {
  return {.state = state,
          .bytes_read = 1 << 20,
          .bytes_total = 4 << 20,
          .bytes_written = 8 << 20,
          .files = 12345,
          .elapsed_ms = 2000,
          .name = "DATA",
          .what = "tar.gz",
          .source = "/project/data.tar.gz",
          .destination = "/localscratch/alice.12.0/data"};
}

inline JobStatus sample_job(const char* node, const char* state, std::vector<StatusItem> items) {
  return {.row = {12, 0, 1001, "alice", node, state, 1700000000, "", "", ""},
          .items = std::move(items)};
}

}  // namespace nodestage
