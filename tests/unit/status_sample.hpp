// A job as a node's daemon tells it.
#pragma once

#include "common/wire/protocol.hpp"

namespace nodestage {

inline StatusItem sample_item(ItemState state) {
  StatusItem item;
  item.state = state;
  item.bytes_read = 1 << 20;
  item.bytes_total = 4 << 20;
  item.bytes_written = 8 << 20;
  item.files = 12345;
  item.elapsed_ms = 2000;
  item.name = "DATA";
  item.what = "tar.gz";
  item.source = "/project/data.tar.gz";
  item.destination = "/localscratch/alice.12.0/data";
  return item;
}

inline JobStatus sample_job(const char* node, const char* state, std::vector<StatusItem> items) {
  JobStatus status;
  status.row = {12, 0, 1001, "alice", node, state, 1700000000, "", "", ""};
  status.items = std::move(items);
  return status;
}

}  // namespace nodestage
