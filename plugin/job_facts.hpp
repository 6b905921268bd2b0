// What slurmd tells the prolog and the epilog about the job, by the environment.
#pragma once

#include <cstdint>
#include <string>

#include "common/wire/protocol.hpp"

namespace nodestage {

// The request as the user's side made it, untrusted; "" when there is none.
std::string requested_staging();

// 0 when the variable is missing or no number. A job id of 0 is no job's.
std::uint32_t number_from_environment(const char* name);
std::string text_from_environment(const char* name);

Begin begin_from_environment();

// limit_s is left 0. After a requeue slurmd gives the epilog the restart count of the run to come,
// so `restart` is no key here; the job id is, since a job has one run at a time on a node.
End end_from_environment();

}  // namespace nodestage
