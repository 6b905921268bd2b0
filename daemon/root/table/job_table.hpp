// JobTable: the runs of jobs that this node knows, and their journal. Only this class changes the
// state of one.
//
//   begin → waiting_for_directory → queued → staging → ready | failed
//   end   → [stopping] → [awaiting_outcome] → staging_out → gone | held
//   held  → staging_out (tried again) | gone (recovered, expired)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/table/journal.hpp"

namespace nodestage {

// How the daemon answers its callers.

// Sends a message to the caller. Called from the loop; may be called several times (progress).
using Reply = std::function<void(const Message&)>;
// Names a caller that waits; 0: one that has its answer already.
using Ticket = std::uint64_t;
// Gives the last answer.
inline Ticket answered(const Reply& reply, const Message& message) {
  reply(message);
  return 0;
}

// RepeatedSources: the sources that jobs of one user have staged on this node again and again, and
// the hint that would save the work. In memory alone: another daemon counts anew.
// Bounded: the sources of a user, of which new ones replace those not staged for the longest time,
// and the users likewise. A user's claims have no effect on the hints of others, unless more users
// than k_most_users stage on the node within a day.
class RepeatedSources {
 public:
  static constexpr std::size_t k_most_users = 1024;
  static constexpr std::size_t k_most_sources = 16;  // of a user

  struct StagingJob {
    std::uint32_t uid;
    std::uint32_t job;
  };
  // Counts an item that a job has staged; `now_s`: seconds since 1970. A job counts once for a
  // source, also with several items and if it is requeued. Returns the hint for the user,
  // printable, with the third job of a user within a day, if it would have saved a minute or a GiB,
  // or is for a directory of many files; "" otherwise.
  std::string count(const StagingJob& by, const ItemRecord& item, std::uint64_t now_s);

 private:
  struct Source {
    std::uint64_t mark = 0;
    std::uint64_t first_s = 0;  // of the day in which it is counted
    std::uint64_t last_s = 0;
    std::vector<std::uint32_t> jobs;  // the first three
    std::uint64_t again_bytes = 0;    // read for all of them but the first
    std::uint64_t again_ms = 0;       // likewise
  };
  struct User {
    std::uint64_t last_s = 0;
    std::vector<Source> sources;
  };
  User& user_of(std::uint32_t uid);
  static Source& source_of(User& user, std::uint64_t mark);

  std::map<std::uint32_t, User> users_;  // by uid
};

// Returns whether a job may go from one state to another. A state follows itself where a daemon
// starts again what the last one had under way, or where a try has failed.
bool may_follow(JobState from, JobState to);

class JobTable {
 public:
  using Records = std::map<JobKey, JobRecord>;

  JobTable(Loop& loop, Journal& journal, Counters& counters);
  JobTable(const JobTable&) = delete;

  // A record keeps its address until it is forgotten.
  [[nodiscard]] const Records& all() const { return records_; }
  JobRecord* find(const JobKey& key);
  // Returns the newest live run of a job, which its steps and its epilog mean.
  JobRecord* find_live(std::uint32_t job);
  [[nodiscard]] const JobRecord* find_live(std::uint32_t job) const;

  // Adds a new job. It is in the journal when this succeeds, and nowhere when it fails.
  Result<JobRecord*> add(JobRecord record);
  // Takes all that the journal holds, and returns its keys, the oldest first. Faults are logged.
  std::vector<JobKey> load();
  // Removes it from the journal, too.
  void forget(const JobKey& key);

  // Sets the state without the journal, which the caller writes once it has noted what comes with
  // it. Refuses and logs a state that may not follow.
  void set_state(JobRecord& record, JobState state);
  // Sets the state and writes the journal.
  void change(JobRecord& record, JobState state);
  // Returns when the job came to its state; nothing if this daemon has not changed it.
  [[nodiscard]] std::optional<Clock::time_point> since(const JobKey& key) const;
  // Writes the record; a write that fails is tried again until it succeeds. Durable by then().
  void save(const JobRecord& record);
  // Writes the record, and tries only once.
  Status save_now(const JobRecord& record) const { return journal_.save(record); }
  // Calls `done` when everything that was saved before is durable, or is known not to be: at once
  // where nothing is under way.
  void then(Loop::Callback done) const { journal_.then(std::move(done)); }
  // Returns why the journal is behind with this job; nothing when it is not.
  [[nodiscard]] std::optional<std::string> unsaved(const JobKey& key) const;

 private:
  void note_fault(const JobRecord& record, const Error& fault);
  void save_again();
  void note_times(JobRecord& record, JobState state);

  Loop& loop_;
  Journal& journal_;
  Counters& counters_;
  Records records_;
  std::map<JobKey, Clock::time_point> since_;
  std::map<JobKey, std::string> unsaved_;  // why
  std::optional<Loop::TimerId> save_timer_;
};

}  // namespace nodestage
