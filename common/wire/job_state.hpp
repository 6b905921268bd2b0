// JobState: what a node's daemon does for a job, with the names that messages, the command and the
// metrics have for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "common/enum_range.hpp"

namespace nodestage {

enum class JobState {
  waiting_for_directory,  // the daemon makes it at once; a site (tmpdir.create) may take time
  queued,                 // for a place among staging.max_jobs
  staging,
  ready,             // the job may run
  failed,            // the job may not run; `cause` says why
  stopping,          // the job ended while the staging worker was still running
  awaiting_outcome,  // after the end: the job's first node knows how the job ended
  staging_out,       // after the end
  held,              // the stage-out failed: the tree is in the hold area
  gone,              // nothing of the job is left on the node; it is about to be forgotten
};
constexpr EnumRange<JobState> range_of(JobState) {
  return {JobState::waiting_for_directory, JobState::gone};
}
inline constexpr std::size_t k_job_states = static_cast<std::size_t>(JobState::gone) + 1;

struct JobStateRow {
  JobState state;
  const char* text;    // in messages between nodestage's programs and for people
  const char* metric;  // the label of nodestage_jobs
  bool is_moving;      // The daemon is at work, and another state follows without the job.
};

// clang-format off
inline constexpr std::array<JobStateRow, k_job_states> k_job_state_rows = {{
    {JobState::waiting_for_directory, "waiting for the job directory", "waiting_for_directory", true},
    {JobState::queued,                "queued",                        "queued",                true},
    {JobState::staging,               "staging",                       "staging",               true},
    {JobState::ready,                 "ready",                         "ready",                 false},
    {JobState::failed,                "failed",                        "failed",                false},
    {JobState::stopping,              "stopping",                      "stopping",              true},
    {JobState::awaiting_outcome,      "ending",                        "awaiting_outcome",      true},
    {JobState::staging_out,           "staging out",                   "staging_out",           true},
    {JobState::held,                  "held",                          "held",                  false},
    {JobState::gone,                  "gone",                          "gone",                  false},
}};
// clang-format on
static_assert(std::ranges::is_sorted(k_job_state_rows, {}, &JobStateRow::state));

constexpr const JobStateRow& row_of(JobState state) {
  return k_job_state_rows.at(static_cast<std::size_t>(state));
}
constexpr const char* to_text(JobState state) { return row_of(state).text; }

// Whether that is the text of a state in which the daemon is at work.
constexpr bool is_moving_state(std::string_view text) {
  return std::ranges::any_of(k_job_state_rows, [text](const JobStateRow& row) {
    return row.is_moving && text == row.text;
  });
}

}  // namespace nodestage
