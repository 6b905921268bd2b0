// Parses JOBID or JOBID.RESTART, as users type it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/protocol.hpp"

namespace nodestage {

struct JobId {
  std::uint32_t job = 0;
  std::uint32_t restart = k_no_number;  // k_no_number: not given
};

std::optional<JobId> parse_job_id(const std::string& text);

}  // namespace nodestage
