// Jobs: what happens to each job of this node, from its prolog to the last trace of it. One step of
// a job's life is one function; the states and their order are in job_table.hpp. What can stand by
// itself has an owner of its own, which Jobs wires to the rest: the table, the files, room on the
// disk, what time limits are owed, jobs without an epilog.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/wire/peer_note.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/jobs/credits.hpp"
#include "daemon/root/jobs/fair_queue.hpp"
#include "daemon/root/jobs/job_files.hpp"
#include "daemon/root/jobs/job_table.hpp"
#include "daemon/root/jobs/metrics.hpp"
#include "daemon/root/jobs/notices.hpp"
#include "daemon/root/jobs/orphans.hpp"
#include "daemon/root/jobs/records.hpp"
#include "daemon/root/jobs/space_desk.hpp"
#include "daemon/root/jobs/trash.hpp"
#include "daemon/root/jobs/turns.hpp"
#include "daemon/root/nodes/barrier.hpp"
#include "daemon/root/nodes/peers.hpp"
#include "daemon/root/slurm/slurm_question.hpp"
#include "daemon/root/workers/workers.hpp"

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
    SlurmQuestion& slurm;
    Records& records;
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
  // The same of a run whose results are held.
  [[nodiscard]] std::optional<std::uint32_t> owner_of_held(const Recover& ask) const;
  // From the daemon of another node.
  void take_note(const PeerNote& note);
  // Answers now or later, through `reply`.
  Ticket wait(const Wait& wait, Reply reply);
  Ticket await(const Await& ask, Reply reply);
  Ticket end(const End& end, const Reply& reply);
  Ticket recover_held(const Recover& ask, const Reply& reply);
  // The caller went away.
  void leave(Ticket ticket);
  // Every job that `uid` may see (root: all); job 0: all of them.
  [[nodiscard]] std::vector<JobStatus> status(std::uint32_t job, std::uint32_t uid);
  // Results that could not be delivered, of `uid` (root: all).
  [[nodiscard]] std::vector<HeldRow> held(std::uint32_t uid) const;
  // NodeReports of the runs of a job that `uid` may see (root: all), those of jobs that are gone
  // too; JSON.
  [[nodiscard]] std::vector<std::string> reports(std::uint32_t job, std::uint32_t uid) const;
  // What is counted, as it is now.
  [[nodiscard]] Metrics metrics();

 private:
  struct Waiter {
    Reply reply;
    std::uint32_t interval_ms;
    bool speaks;
    WaitScope scope;
    Loop::TimerId timer;
    std::optional<std::vector<std::string>> names;  // of an await: empty: all datasets
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
  // A user's request for held results, while it is served.
  struct Recovery {
    Ticket ticket = 0;
    Reply reply;
    std::string directory;
    std::optional<Workers::Id> worker;  // none yet while a retry is being ended
    std::optional<Loop::TimerId> timer;
  };
  // What status() has told of the items.
  struct Seen {
    Clock::time_point at{};
    WorkerTask task{};
    std::vector<StatusItem> items;
  };
  struct Job {
    explicit Job(JobRecord& of) : record(of) {}

    JobRecord& record;  // in the table
    std::optional<Workers::Id> worker;
    Clock::time_point worker_begun{};
    std::optional<Clock::time_point> since;  // in its state
    Work counted;                            // of the worker's doing
    std::string async_fault;  // how the worker ended before its async items were staged
    std::map<Ticket, Waiter> waiters;
    std::map<Ticket, Ender> enders;
    Talk talk;
    bool is_being_measured = false;
    std::uint64_t measure_since = 0;          // seconds since 1970; 0: not yet begun by this daemon
    std::uint64_t measure_at = 0;             // once more, after a failure; 0: no
    std::uint32_t measures = 0;               // that failed
    bool is_leaving = false;                  // held no more as soon as its user is told
    std::optional<Loop::TimerId> hold_timer;  // for the next thing to do while it is held
    std::optional<Recovery> recovery;
    Seen seen;
    std::string parting;  // how held results came to leave, for its report
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
  Job* find(const JobKey& key);
  void save(const Job& job) { table_.save(job.record); }
  void set_state(Job& job, JobState state);
  void may_run(Job& job);
  Message admit(const Begin& begin);
  [[nodiscard]] const std::vector<StatusItem>& items_of(Job& job, WorkerTask task) const;
  Result<JobRecord> new_record(const Begin& begin) const;
  [[nodiscard]] Status make_directory(const JobRecord& record) const;
  void set_out(Job& job);  // its directory is there, or the site makes it
  void learn(Job& job, const Wait& wait);

  // jobs_staging.cpp: from the directory to ready or failed
  void seek_directory(const JobKey& key, Clock::time_point give_up);
  void enqueue(Job& job);
  void start_queued();
  void staging_ended(const JobKey& key, const WorkerEnd& end);
  void share_rate() const;
  void fail(Job& job, FailureCause why, const std::string& cause, const std::string& item = {});
  [[nodiscard]] Word word_for(const Job& job, WaitScope scope) const;
  void notice_ready(Job& job);
  [[nodiscard]] static std::string others_line(Job& job);
  void answer(Job& job, const Waiter& waiter, Word word);
  void tell_waiters(Job& job);
  void tick(const JobKey& key, Ticket ticket);
  [[nodiscard]] Progress progress(Job& job, const Waiter& waiter) const;
  Ready ready_message(Job& job, const Waiter& waiter);

  // jobs_await.cpp: what a process of the job waits for
  [[nodiscard]] std::optional<Message> word_on(const Job& job,
                                               const std::vector<std::string>& names) const;
  [[nodiscard]] Progress progress_on(const Job& job, const std::vector<std::string>& names) const;

  // jobs_places.cpp: the places among staging.max_jobs
  [[nodiscard]] UserPlaces places_by_user() const;
  [[nodiscard]] std::size_t staging_now() const;
  [[nodiscard]] std::size_t places_of_one_user() const;

  // jobs_peers.cpp: the job's other nodes
  void join(Job& job);
  void pulse(const JobKey& key);
  [[nodiscard]] bool waits_for_all(const Job& job) const;
  [[nodiscard]] NodeNote own_state(const Job& job) const;
  void own_state_changed(Job& job);
  void tell_use(Job& job);
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
  void orphan_found(const JobKey& key);
  void stop_staging(Job& job);
  void begin_stage_out(Job& job);
  void start_stage_out(Job& job);
  void stage_out_ended(const JobKey& key, const WorkerEnd& end);
  void go_on_in_background(Job& job);
  void move_to_hold(Job& job);
  void hold(Job& job, const std::string& cause);
  void lose(Job& job, const std::string& cause);
  void finish(Job& job);
  void answer_enders(Job& job, const Ended& ended);

  // jobs_hold.cpp: what could not be delivered
  void note_failure(Job& job);
  void look_after(Job& job);
  void set_hold_timer(Job& job);
  void hold_timer_due(const JobKey& key);
  void warn(Job& job);
  Turns::Begun try_again(const JobKey& key);
  [[nodiscard]] bool is_taken_away(Job& job) const;
  void let_go(Job& job, const std::string& text);
  void measure(Job& job);
  Turns::Begun start_measure(const JobKey& key);
  void measured(const JobKey& key, const WorkerEnd& end);
  void measure_later(Job& job);
  void tell_user(const Job& job, const std::string& text, Notices::OnTold told);
  void tell_held(Job& job);
  [[nodiscard]] std::string refusal_of_outputs(const Job& job) const;

  // jobs_recover_held.cpp: on the user's request
  [[nodiscard]] std::vector<JobKey> find_held(const Recover& ask) const;
  void queue_recovery(Job& job);
  Turns::Begun start_recovery(const JobKey& key);
  void tell_recovery(const JobKey& key);
  void recovery_ended(const JobKey& key, const WorkerEnd& end);
  void answer_recovery(Job& job, const Message& message);
  void leave_recovery(Ticket ticket);

  // jobs_recovery.cpp: after a restart of the daemon
  enum class WorkersWord { open, last };  // whether the status file tells the end of the task
  void take_over(JobRecord& record);
  void carry_on(Job& job);
  void go_on(Job& job, WorkersWord word);

  // jobs_metrics.cpp: what is counted
  void count_time(Job& job, JobState next);
  void count_work(Job& job);

  // jobs_report.cpp: what is told and kept of when what happened
  [[nodiscard]] NodeReport report_of(const Job& job) const;
  void keep_report(const Job& job);

  // jobs_workers.cpp: the processes that do it
  Status start_worker(Job& job, WorkerTask task);
  void adopt_worker(Job& job, WorkerTask task);
  Workers::OnEnd on_end_of(const JobKey& key, WorkerTask task);
  [[nodiscard]] WorkerStart order_of(const Job& job, WorkerTask task) const;
  [[nodiscard]] WorkerStatus worker_status(const Job& job, WorkerTask task) const {
    return files_.status(job.record.key(), task);
  }

  // Of each user, of each kind: targets that hang delay only their owner's other results, and
  // thousands of results are no thousands of processes.
  static constexpr std::size_t k_turns = 4;

  Places at_;
  JobTable table_{at_.loop, at_.journal};
  JobFiles files_{at_.areas};
  SpaceDesk desk_{at_.loop, at_.config, at_.areas};
  Credits credits_{at_.loop, at_.config, table_, files_};
  Orphans orphans_{at_.loop, at_.config, table_, at_.slurm,
                   [this](const JobKey& key) { orphan_found(key); }};
  Notices notices_{at_.workers, at_.config};
  Turns retries_{at_.loop, k_turns};
  Turns measures_{at_.loop, k_turns};
  Turns recoveries_{at_.loop, k_turns};
  std::map<JobKey, Job> jobs_;
  FairQueue queue_;
  std::map<std::pair<JobKey, std::string>, EarlyNote> early_notes_;  // by sender; of jobs whose
                                                                     // prolog is still to come
  std::size_t early_bytes_ = 0;
  std::map<JobKey, Outcome> outcomes_;
  Ticket next_ticket_ = 1;
  Counters counters_;
};

}  // namespace nodestage
