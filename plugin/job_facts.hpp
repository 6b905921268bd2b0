// Reads the facts about the job in the environment that slurmd gives the prolog and the epilog.
#pragma once

#include <cstdint>
#include <string>

#include "common/wire/protocol.hpp"

namespace nodestage {

// Returns the encoded request from the user's side, untrusted; "" if there is none.
std::string requested_staging();

// Returns 0 if the variable is missing or not a number. No job has the id 0.
std::uint32_t number_from_environment(const char* name);
std::string text_from_environment(const char* name);

Begin begin_from_environment();

// Reads all but limit_s. After a requeue, slurmd gives the epilog the restart count of the next
// run, so the job id alone identifies the run here: a node has at most one run of a job at a time.
End end_from_environment();

}  // namespace nodestage
