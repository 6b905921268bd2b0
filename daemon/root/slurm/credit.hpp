// Credit: what is added to a job's time limit for its staging, and what Slurm has said of the
// limit.
//
// Job names, comments and paths in scontrol's output are the user's, and a limit is not his to
// raise: an answer counts only when it has one line and each field that matters once. Who forges a
// field gets nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/config.hpp"

namespace nodestage {

inline constexpr std::uint32_t k_unlimited = 0xffffffff;

// Minutes of "3" (minutes), "03:04" (minutes, seconds), "02:03:04", "1-02:03:04" (days first);
// seconds are dropped. UNLIMITED and INFINITE are k_unlimited; nothing for all else, such as
// Partition_Limit.
std::optional<std::uint32_t> parse_minutes(std::string_view text);

// For so many seconds of staging.
std::uint32_t credit_minutes(std::uint64_t seconds, const Config::Credit& settings);

struct JobLimit {
  enum class Answer {
    known,    // it runs, and what follows is so
    ask_for,  // ask for `id` instead, of which Slurm tells alone
    later,    // not yet, or no answer
    never,    // there is nothing to add to
  } answer = Answer::later;
  std::string why;  // of later and never
  std::string id;   // by which Slurm means this job alone: "12", or "10_3" of an array
  std::string partition;
  std::uint32_t minutes = 0;
};

// From `scontrol --oneliner show job`.
JobLimit read_job_limit(const JobKey& run, std::string_view output);

// From `scontrol --oneliner show partition`: minutes.
std::optional<std::uint32_t> read_max_time(const std::string& partition, std::string_view output);

// limit + credit, at most max_time; nothing when that is no more than `limit`.
std::optional<std::uint32_t> raised_limit(std::uint32_t limit, std::uint32_t credit,
                                          std::uint32_t max_time);

}  // namespace nodestage
