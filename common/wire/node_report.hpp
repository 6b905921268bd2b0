// NodeReport: the times and items of one run of a job on one node, as the node's daemon reports and
// keeps them (for `nodestage report`).
//
//   JSON, version 1, at most k_max_report_bytes, UTF-8: the keys are the members' names; the
//   elements of "items", "outputs", and "pushes" are objects. Items that do not fit are omitted and
//   counted in "omitted".
//
// Times are milliseconds since 1970 by that node's clock; 0: has not happened. Texts are printable.
// The numbers and texts of items are claims of the user's worker; their times lie within the job's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_report_bytes = 64 * 1024;

struct JobTimes {
  std::uint64_t begun = 0;    // the prolog announced the job
  std::uint64_t staging = 0;  // the worker was started
  std::uint64_t staged = 0;   // staging was ready here, or failed
  std::uint64_t decided = 0;  // with several nodes: all were ready, or one had failed
  std::uint64_t run = 0;      // the first task started
  std::uint64_t ended = 0;    // the epilog announced the end
  std::uint64_t out = 0;      // the first stage-out started
  std::uint64_t out_end = 0;  // the last stage-out ended
  std::uint64_t held = 0;     // results were held for the first time
  std::uint64_t gone = 0;     // nothing of the job was left on the node

  bool operator==(const JobTimes&) const = default;
};

struct ReportItem {
  std::string state;  // waiting, working, done, failed, skipped
  bool is_async = false;
  bool is_optional = false;
  std::string what;
  std::string source;
  std::string destination;
  std::string note;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t files = 0;
  std::uint64_t bytes_from_storage = 0;  // with a relay: read from the source's file system,
  std::uint64_t bytes_from_nodes = 0;    // and received from other nodes of the job
  std::uint64_t begun = 0;
  std::uint64_t read_to = 0;  // when the last byte of the source was read
  std::uint64_t ended = 0;

  bool operator==(const ReportItem&) const = default;
};

// One delivery of results while the job ran.
struct ReportPush {
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t files = 0;
  bool has_failed = false;

  bool operator==(const ReportPush&) const = default;
};
inline constexpr std::size_t k_max_report_pushes = 64;

// For JSON: a report's, and the daemon's journal's.
void each_field(Is<ReportPush> auto& push, auto field) {
  field("begun", push.begun);
  field("ended", push.ended);
  field("bytes_written", push.bytes_written);
  field("files", push.files);
  field("has_failed", push.has_failed);
}

struct NodeReport {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0;
  std::string node;
  std::uint32_t node_index = 0;
  std::uint32_t node_count = 1;
  std::string state;
  std::string outcome;   // of the job's own work: success, failure, unknown
  std::string cause;     // why its staging failed, or why results are held
  std::uint64_t at = 0;  // the time of this report
  JobTimes times;
  std::vector<ReportItem> items;    // of the staging
  std::vector<ReportItem> outputs;  // of the last stage-out; before that, of the last push
  std::vector<ReportPush> pushes;   // the latest k_max_report_pushes
  std::uint32_t pushes_in_all = 0;
  std::uint32_t omitted = 0;

  bool operator==(const NodeReport&) const = default;
};

// Bounds a worker's claims: shortens texts and makes them printable, and moves times other than 0
// into [from, to].
ReportItem report_item(const ItemRecord& record, std::uint64_t from, std::uint64_t to);

// One line, without the newline.
std::string encode_report(NodeReport report);
// A fault if `json` is not a report. It can come from a process of the job's user: texts become
// short and printable, numbers and times at most k_largest_claim.
Result<NodeReport> decode_report(std::string_view json);

// JobState: what a node's daemon does for a job, with the names that messages, the command and the
// metrics have for it.

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
