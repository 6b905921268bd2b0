// Jobs: the job table of this node and what happens to each job, from its prolog to the last trace
// of it. One step of a job's life is one function; the states are JobState (job.hpp).
//
//   begin → [waiting_for_directory] → queued → staging → ready | failed
//   end   → [stopping] → [awaiting_outcome] → staging_out → gone | held
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/peer_note.hpp"
#include "common/protocol.hpp"
#include "common/status_file.hpp"
#include "daemon/root/areas.hpp"
#include "daemon/root/barrier.hpp"
#include "daemon/root/config.hpp"
#include "daemon/root/job.hpp"
#include "daemon/root/journal.hpp"
#include "daemon/root/loop.hpp"
#include "daemon/root/peers.hpp"
#include "daemon/root/trash.hpp"
#include "daemon/root/workers.hpp"

namespace nodestage {

// Sends a message to whoever asked. Called from the loop; may be called several times (progress).
using Reply = std::function<void(const Message&)>;
using Ticket = std::uint64_t;  // of a caller that waits; 0: it has its answer already

class Jobs {
 public:
  struct Places {
    Loop& loop;
    const Config& config;
    Areas& areas;
    const Journal& journal;
    Workers& workers;
    Trash& trash;
    Peers& peers;
    int rate_fd;  // k_worker_rate_fd, written here
  };
  explicit Jobs(const Places& places);

  // Carries on with the jobs of an earlier daemon.
  void recover();
  // After a reload of the configuration: what changes for jobs that are here already.
  void settings_changed();

  Message begin(const Begin& begin);
  Message exited(const Exited& exited);
  // The uid of a live job, for the check who may ask.
  [[nodiscard]] std::optional<std::uint32_t> owner(std::uint32_t job) const;
  // From the daemon of another node.
  void take_note(const PeerNote& note);
  // Answers now or later, through `reply`.
  Ticket wait(const Wait& wait, Reply reply);
  Ticket end(const End& end, const Reply& reply);
  // The caller went away.
  void leave(Ticket ticket);
  // Every job that `uid` may see (root: all); job 0: all of them.
  [[nodiscard]] std::vector<StatusRow> status(std::uint32_t job, std::uint32_t uid) const;

 private:
  struct Waiter {
    Reply reply;
    std::uint32_t interval_ms;
    bool speaks;
    WaitScope scope;
    Loop::TimerId timer;
  };
  // Of a job with several nodes: the talk with the other daemons.
  struct Talk {
    // On the first node:
    std::optional<Barrier> barrier;  // while the verdict is open
    std::set<std::string> members;
    Clock::time_point line_made{};
    // On all:
    std::map<std::string, std::uint64_t> sequences;  // of the last note from each node
    std::string line;  // about the nodes that are not ready, for people
    Clock::time_point next_note{};
    // On the other nodes, about the first:
    std::optional<Clock::time_point> heard;      // its last note
    std::optional<Clock::time_point> listening;  // since when a step waits for its verdict
    bool asked_after = false;
    std::string send_fault;  // of the last note to it
  };
  struct Ender {
    Reply reply;
    Loop::TimerId timer;
  };
  struct Job {
    JobRecord record;
    std::optional<Workers::Id> worker;
    Clock::time_point worker_begun{};
    std::uint32_t last_step = k_no_number;  // of which record.last_status tells
    std::map<Ticket, Waiter> waiters;
    std::map<Ticket, Ender> enders;
    Talk talk;
  };
  enum class Word { not_yet, ready, failed };
  struct EarlyNote {
    PeerNote note;
    std::size_t bytes;
    Clock::time_point came;
  };
  struct Outcome {  // of a job that is gone from its first node
    JobNote note;
    std::string node;
    std::set<std::string> members;
  };

  // jobs.cpp: the table
  Job* find_live(std::uint32_t job);
  [[nodiscard]] const Job* find_live(std::uint32_t job) const;
  Job* find(const JobKey& key);
  void save(Job& job);
  void set_state(Job& job, JobState state);
  Message admit(const Begin& begin);
  Result<JobRecord> new_record(const Begin& begin) const;
  void learn(Job& job, const Wait& wait);

  // jobs_staging.cpp: from the directory to ready or failed
  void seek_directory(const JobKey& key, Clock::time_point give_up);
  void enqueue(Job& job);
  void start_queued();
  void staging_ended(const JobKey& key, const WorkerEnd& end);
  [[nodiscard]] std::size_t staging_now() const;
  void share_rate() const;
  void fail(Job& job, const std::string& cause);
  [[nodiscard]] Word word_for(const Job& job, WaitScope scope) const;
  void notice_ready(Job& job);
  [[nodiscard]] static std::string others_line(Job& job);
  void answer(Job& job, const Waiter& waiter, Word word);
  void tell_waiters(Job& job);
  void tick(const JobKey& key, Ticket ticket);
  [[nodiscard]] Progress progress(Job& job, const Waiter& waiter) const;
  Ready ready_message(Job& job, const Waiter& waiter);

  // jobs_peers.cpp: the job's other nodes
  void join(Job& job);
  void pulse(const JobKey& key);
  [[nodiscard]] bool waits_for_all(const Job& job) const;
  [[nodiscard]] NodeNote own_state(const Job& job) const;
  void own_state_changed(Job& job);
  void report(Job& job, const NodeNote& note);
  void watch_others(Job& job);
  void judge(const JobKey& key, const std::string& node, const PeerFault& fault);
  void watch_first(Job& job);
  void judge_first(const JobKey& key, const PeerFault& fault);
  void go_without_peers(Job& job, const std::string& why);
  void decide(Job& job, Verdict verdict, const std::string& text);
  void tell_nodes(Job& job, std::vector<std::string> nodes);
  void tell_all_nodes(Job& job);

  // jobs_outcome.cpp: how a job of several nodes ended, and notes of jobs that are not here
  [[nodiscard]] static JobNote job_note(const Job& job);
  void tell_outcome(Job& job);
  void keep_outcome(const Job& job);
  void answer_late(const PeerNote& note);
  void tell_refusal(const Begin& begin, const std::string& what, unsigned tries);
  void take(Job& job, const std::string& from, const NodeNote& note);
  void take(Job& job, const std::string& from, const JobNote& note);
  void keep_for_later(const PeerNote& note);
  void take_early_notes(const JobKey& key);
  [[nodiscard]] bool lacks_outcome(const Job& job) const;
  void await_outcome(Job& job);
  void ask_outcome(const JobKey& key, Clock::time_point give_up);

  // jobs_ending.cpp: from the end of the job to no trace of it
  void stop_staging(Job& job);
  void begin_stage_out(Job& job);
  void start_stage_out(Job& job);
  void stage_out_ended(const JobKey& key, const WorkerEnd& end);
  void go_on_in_background(Job& job);
  void move_to_hold(Job& job);
  void hold(Job& job, const std::string& cause);
  void finish(Job& job);
  void answer_enders(Job& job, const Ended& ended);

  // jobs_recovery.cpp: after a restart of the daemon
  enum class WorkersWord { open, last };  // whether the status file tells the end of the task
  void recover_one(JobRecord record);
  void go_on(Job& job, WorkersWord word);

  // jobs_workers.cpp: the processes that do it
  Status start_worker(Job& job, WorkerTask task);
  void adopt_worker(Job& job, WorkerTask task);
  Workers::OnEnd on_end_of(const JobKey& key, WorkerTask task);
  [[nodiscard]] Workers::Limits limits_of(WorkerTask task) const;
  [[nodiscard]] WorkerStart order_for(const Job& job, WorkerTask task) const;
  [[nodiscard]] WorkerStatus worker_status(const Job& job, WorkerTask task) const;
  [[nodiscard]] Result<Fd> job_directory(const Job& job) const;

  Places at_;
  std::map<JobKey, Job> jobs_;
  std::vector<JobKey> queue_;
  std::map<std::pair<JobKey, std::string>, EarlyNote> early_notes_;  // by sender; of jobs whose
                                                                     // prolog is still to come
  std::size_t early_bytes_ = 0;
  std::map<JobKey, Outcome> outcomes_;
  Ticket next_ticket_ = 1;
};

}  // namespace nodestage
