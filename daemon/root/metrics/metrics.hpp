// Metrics: what the daemon counts, and its text for Prometheus (exposition format 0.0.4, as
// node_exporter's textfile collector takes it). Counters start at 0 with each daemon. Names, labels
// and meanings are in docs/admin.md, which a test compares with this. Pure; JobViews fills it in,
// and MetricsFile writes it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/wire/status_file.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

enum class Activity { stage, stage_out, push };

// Where a job's time goes.
enum class Phase { directory, queued, staging, barrier, outcome, stage_out };

enum class FailureCause {
  data,        // a source, an archive or a target: what the worker itself reports
  space,       // the local disk
  time_limit,  // staging.limit, stageout.limit
  memory,      // worker.memory
  process,     // the worker exited before it was done
  start,       // the worker could not be started
  directory,   // the site's Prolog has not made it
  other_node,  // the job fails here because it failed there
  refused,     // at its prolog
  journal,     // cannot be written
};

inline constexpr std::size_t k_activities = 3;
inline constexpr std::size_t k_phases = 6;
inline constexpr std::size_t k_failure_causes = 10;

// The amounts that workers claim to have read and written.
struct Work {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t files = 0;
  // For items that were to be relayed:
  std::uint64_t bytes_from_storage = 0;
  std::uint64_t bytes_from_nodes = 0;

  bool operator==(const Work&) const = default;
};
Work work_of(const WorkerStatus& status);  // every claim bounded
FailureCause cause_of(const WorkerEnd& end, const WorkerStatus& status);

struct Counters {
  struct Spent {
    std::uint64_t times = 0;
    std::uint64_t milliseconds = 0;
  };
  // Shared items that jobs asked for, and entries that were removed.
  struct Cache {
    std::uint64_t hits = 0;     // they were there
    std::uint64_t misses = 0;   // the job staged them to be kept
    std::uint64_t refused = 0;  // the job staged them for itself
    std::uint64_t evictions = 0;
    std::uint64_t bytes_not_read = 0;  // of the sources of hits
    std::uint64_t hits_of_others = 0;  // of the hits, on what another user's job had staged
  };
  // Deliveries while a job runs.
  enum class Pushed { done, unsettled, failed };
  struct Pushes {
    std::array<std::uint64_t, 3> results{};  // by Pushed
    std::uint64_t milliseconds = 0;
  };
  std::array<Work, k_activities> work{};
  std::array<Spent, k_phases> spent{};
  std::array<std::array<std::uint64_t, k_failure_causes>, k_activities> failures{};
  Cache cache;
  Pushes pushes;

  // Adds the amount by which `now` exceeds `counted`, and raises `counted` to `now`.
  void add_work(Activity activity, const Work& now, Work& counted);
  void add_time(Phase phase, std::chrono::steady_clock::duration time);
  // Adds nothing for a state whose time is not counted.
  void add_time(JobState state, std::chrono::steady_clock::duration time);
  void add_push(Pushed result, std::uint64_t milliseconds);
  void add_failure(Activity activity, FailureCause cause);
};

// The person who can remove what keeps results from their target.
enum class WaitsFor { user, administrator };

struct Metrics {
  Counters counters;
  std::array<std::uint64_t, k_job_states> jobs{};  // by JobState
  std::array<std::uint64_t, 2> held_results{};     // by WaitsFor
  std::array<std::uint64_t, 2> held_bytes{};
  std::array<std::uint64_t, 2> held_inodes{};
  std::uint64_t held_at_risk = 0;  // of held_results: Slurm can switch the node off
  std::uint64_t trash_trees = 0;
  std::uint64_t stuck_trees = 0;
  std::uint64_t cache_entries = 0;
  std::uint64_t cache_bytes = 0;
  // Of the file system of the job directories:
  std::uint64_t promised_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t free_inodes = 0;
  std::uint64_t size_bytes = 0;
};

// `disk` changes without the daemon, so it alone is not a reason to write the file.
struct MetricsText {
  std::string own;
  std::string disk;
};
MetricsText metrics_text(const Metrics& metrics);

}  // namespace nodestage
