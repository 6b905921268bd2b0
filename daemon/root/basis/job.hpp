// Job: what the daemon knows of one run of one Slurm job on this node, and the job's journal entry.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/wire/node_report.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/areas.hpp"

namespace nodestage {

// How a process of an earlier daemon is found again. Its pid may be reused by now.
struct ProcessMark {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
};

// About results that could not be delivered. Times are seconds since 1970, so that they keep their
// meaning across a restart of the daemon or the node.
struct HoldRecord {
  std::uint64_t since = 0;           // 0: never held
  std::uint64_t retry_at = 0;        // no further try is made if 0
  std::uint64_t bytes = 0;           // disk space of the whole tree
  std::uint64_t inodes = 0;          // of the whole tree
  bool is_measured = false;          // whether both are known
  bool notice_is_current = false;    // the user's notice is up to date
  std::uint64_t warned_at = 0;       // 0: no warning of the expiry was given yet
  std::uint64_t delivered = 0;       // bit i: item i of --stage-out needs no further delivery
  std::vector<std::string> reasons;  // what was not delivered and why; printable
  bool waits_for_user = false;       // who can remove all causes; else the administrators
};

// Plain data that the journal keeps. `begin.request` is kept as it came, in a file of its own.
struct JobRecord {
  Begin begin;
  JobState state = JobState::queued;
  std::string directory;          // name below the tmpdir root
  bool directory_is_ours = true;  // made by the daemon, so removed by it
  bool in_hold = false;           // the tree has been renamed into the hold area
  bool may_have_run = false;      // it was ready, or a step did not wait for it
  bool announced = false;         // a step was given the summary
  bool ended = false;             // the epilog has come
  std::string cause;
  std::string failure;  // why the staging failed; stays after the end
  JobTimes times;
  ProcessMark worker;                         // pid 0: none
  std::optional<std::uint32_t> batch_status;  // wait status of the batch script
  std::optional<std::uint32_t> last_status;   // of the task of the last step that ended
  std::uint32_t last_step = k_no_number;      // the step of last_status
  std::uint32_t exit_code = 0;                // of the epilog
  std::uint32_t stage_outs = 0;               // how many workers were started for stage-out
  HoldRecord hold;
  JobFacts facts;                    // reported by a step here or on the first node
  std::uint64_t begun_at = 0;        // seconds since 1970
  std::uint32_t credit_minutes = 0;  // to add to the job's time limit, unless credited
  bool credited = false;             // Slurm was asked for it, or was about to be: never ask again
  bool is_looked_at = false;         // by a step here, before the job is ready
  ProcessMark pusher;                // of the worker with the task `push`; pid 0: none
  ProcessMark relayer;               // of the worker with the task `relay`; pid 0: none
  ProcessMark server;                // of the worker with the task `serve`; pid 0: none
  bool images_known = false;   // whether its images are mounted; image_fault: why they are not, or
  bool images_served = false;  // how the process ended that served them
  std::string image_fault;
  std::vector<ReportPush> pushes;   // the latest k_max_report_pushes
  std::uint32_t pushes_in_all = 0;  // that have ended
  bool push_has_failed = false;     // as its user knows it
  std::vector<SharedItem> shared;   // what it does with its shared items; keeps them in the cache
  // Of a job with several nodes:
  Verdict verdict = Verdict::open;
  std::string verdict_text;
  std::string verdict_cause;                  // JobNote::cause
  bool outcome_known = false;                 // the first node has reported how the job ended
  std::optional<std::uint32_t> first_status;  // of the batch script or the first node's last step
  bool directory_was_there = false;  // at the prolog: another program of the site has made it

  [[nodiscard]] JobKey key() const { return {begin.job, begin.restart}; }
};

// Whether steps and the epilog that name this job mean this run: it is neither held nor being
// delivered in the background.
inline bool is_live(const JobRecord& record) {
  return !record.in_hold && record.hold.since == 0 && record.state != JobState::held &&
         record.state != JobState::gone;
}

// Whether its job directory may be a mount.
inline Mounts mounts_of(const JobRecord& record) {
  return record.directory_is_ours ? Mounts::refuse : Mounts::enter;
}

// Whether the daemons of several nodes stage this job together.
inline bool spans_nodes(const Begin& begin) {
  return begin.node_count > 1 && !begin.first_node.empty() && !begin.request.empty();
}
inline bool spans_nodes(const JobRecord& record) { return spans_nodes(record.begin); }
inline bool is_on_first_node(const JobRecord& record) { return record.begin.node_index == 0; }

// On the first node: whether it can report to the others how the job ended.
inline bool knows_outcome(const JobRecord& record) { return record.ended || record.batch_status; }

// Whether the job succeeded, from what its steps and the epilog reported.
JobOutcome outcome_of(const JobRecord& record);

}  // namespace nodestage
