// Credit: what is added to a job's time limit for its staging, and what Slurm reports of the limit.
//
// Job names, comments, and paths in scontrol's output come from the user, who must not be able to
// raise the limit. So an answer counts only if it has one line and each field that matters once.
// Forging a field gains nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"

namespace nodestage {

inline constexpr std::uint32_t k_unlimited = 0xffffffff;

// Returns the minutes of "3" (minutes), "03:04" (minutes, seconds), "02:03:04", or "1-02:03:04"
// (days first), without seconds. UNLIMITED and INFINITE are k_unlimited. Returns nothing for other
// texts, such as Partition_Limit.
std::optional<std::uint32_t> parse_minutes(std::string_view text);

std::uint32_t credit_minutes(std::uint64_t seconds, const Config::Credit& settings);

struct JobLimit {
  enum class Answer {
    known,    // the job runs, and the fields below are valid
    ask_for,  // ask for `id` instead, which names this job alone
    later,    // not yet, or no answer
    never,    // there is nothing to add to, now or later
  } answer = Answer::later;
  std::string why;  // of later and never
  std::string id;   // names this job alone to Slurm: "12", or "10_3" of an array
  std::string partition;
  std::uint32_t minutes = 0;
};

// Reads the output of `scontrol --oneliner show job`.
JobLimit read_job_limit(const JobKey& run, std::string_view output);

// Reads the minutes from `scontrol --oneliner show partition`.
std::optional<std::uint32_t> read_max_time(const std::string& partition, std::string_view output);

// Returns limit + credit, at most max_time; nothing if that is not more than `limit`.
std::optional<std::uint32_t> raised_limit(std::uint32_t limit, std::uint32_t credit,
                                          std::uint32_t max_time);

}  // namespace nodestage
