// Log lines of the daemon: "job=12.0 uid=1000 role=worker: text", to stderr (journald keeps them).
#pragma once

#include <spdlog/spdlog.h>

#include <string>

#include "daemon/root/job.hpp"

namespace nodestage {

inline std::string about(const JobRecord& record, const char* role = "daemon") {
  return "job=" + to_text(record.key()) + " uid=" + std::to_string(record.begin.uid) +
         " role=" + role;
}

}  // namespace nodestage
