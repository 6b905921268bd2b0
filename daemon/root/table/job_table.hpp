// JobTable: the runs of jobs that this node knows, and their journal. The only place that changes
// the state of one.
//
//   begin → waiting_for_directory → queued → staging → ready | failed
//   end   → [stopping] → [awaiting_outcome] → staging_out → gone | held
//   held  → staging_out (tried again) | gone (recovered, expired)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/table/journal.hpp"
#include "daemon/root/table/metrics.hpp"

namespace nodestage {

// Whether a job may come from one state to another. A state comes to itself where a daemon begins
// again what the last one was at, or where a try has failed.
bool may_follow(JobState from, JobState to);

class JobTable {
 public:
  using Records = std::map<JobKey, JobRecord>;

  JobTable(Loop& loop, const Journal& journal, Counters& counters)
      : loop_(loop), journal_(journal), counters_(counters) {}
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  // A record stays where it is until it is forgotten.
  [[nodiscard]] const Records& all() const { return records_; }
  JobRecord* find(const JobKey& key);
  // The newest run of a job that its steps and its epilog mean.
  JobRecord* find_live(std::uint32_t job);
  [[nodiscard]] const JobRecord* find_live(std::uint32_t job) const;

  // A new job. It is in the journal when this succeeds, and nowhere when it fails.
  Result<JobRecord*> add(JobRecord record);
  // What the journal holds, the oldest first; faults are logged. The table takes all of it.
  std::vector<JobKey> load();
  // From the journal, too.
  void forget(const JobKey& key);

  // Does not write the journal: the caller does, once it has noted what comes with the state.
  void set_state(JobRecord& record, JobState state);
  // Writes it, too.
  void change(JobRecord& record, JobState state);
  // Since when the job has been in its state; nothing before this daemon has changed it.
  [[nodiscard]] std::optional<Clock::time_point> since(const JobKey& key) const;
  // What could not be written is tried again until it can.
  void save(const JobRecord& record);
  // Now or not at all.
  Status save_now(const JobRecord& record) const { return journal_.save(record); }
  // Why the journal is behind with this job; nothing when it is not.
  [[nodiscard]] std::optional<std::string> unsaved(const JobKey& key) const;

 private:
  void save_again();
  void note_times(JobRecord& record, JobState state);

  Loop& loop_;
  const Journal& journal_;
  Counters& counters_;
  Records records_;
  std::map<JobKey, Clock::time_point> since_;
  std::map<JobKey, std::string> unsaved_;  // why
  std::optional<Loop::TimerId> save_timer_;
};

}  // namespace nodestage
