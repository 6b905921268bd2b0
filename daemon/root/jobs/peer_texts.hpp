// Messages to users about the other nodes of their job, and how often its nodes send notes. Pure.
#pragma once

#include <chrono>
#include <string>

#include "common/settings/config.hpp"
#include "daemon/root/basis/job.hpp"

namespace nodestage {

// Returns the time between two notes of one node while nothing happens: it is longer in a large
// job, so that its first node gets at most a hundred each second (from 3,000 nodes on: n / 30).
std::chrono::milliseconds note_interval(const JobRecord& record);
// Returns how long a node may be silent.
std::chrono::seconds silence_of(const JobRecord& record, const Config& config);

// Returns as much of a text as fits into a note.
std::string bounded(const std::string& text);
// Returns what to do about that node; it follows a cause.
std::string submit_again(const std::string& node);
// Returns why a node is silent, as far as a probe of its port has shown: `fault`, "" when it
// listens.
std::string why_silent(const Begin& begin, bool has_begun, const std::string& fault,
                       const Config& config);
// Returns why the job's first node gives no verdict.
std::string why_first_is_silent(const Begin& begin, const std::string& fault, const Config& config);

}  // namespace nodestage
