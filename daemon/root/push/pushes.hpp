// Pushes: results that are delivered while their job runs: when the job asks (`nodestage push`),
// and at the intervals of `every=`. A job has one worker at a time; the next one serves those who
// ask meanwhile. Nothing here fails or delays a job.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/held/held_results.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/push/push_plan.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/records.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Pushes {
 public:
  struct Deps : JobDeps {
    const HeldResults& held;  // writes notices
  };
  explicit Pushes(const Deps& deps) : deps_(deps) {}
  Pushes(const Pushes&) = delete;

  // Serves `nodestage push`. Returns the ticket, or 0 when the answer was given already.
  Ticket push(JobRecord& record, const Push& ask, Ticket ticket, Reply reply);
  bool leave(Ticket ticket);

  // Starts the intervals of a job that has become ready, or is carried on so.
  void watch(const JobRecord& record);
  // Takes over the worker that the record of a job from the journal notes, if it lives.
  void adopt(JobRecord& record);
  // Delivers nothing more of a job that has ended. A worker is killed: the state is `stopping`, and
  // its exit is reported as `stopped`.
  void stop(JobRecord& record);
  void forget(const JobKey& key) { jobs_.erase(key); }

  // Returns the outputs as the pushes left them, for `nodestage status`.
  [[nodiscard]] WorkerStatus status(const JobRecord& record) const;

 private:
  struct Caller {
    Reply reply;
    std::vector<std::string> names;
    std::chrono::milliseconds interval{};
    bool is_served = false;  // by the worker that runs now, not the next one
    Loop::TimerId timer{};
  };
  struct Job {
    PushTimes times;
    std::optional<Loop::TimerId> timer;  // for the next output that is due
    PushWanted next;
    std::map<Ticket, Caller> callers;
    std::uint64_t begun_ms = 0;    // of the push under way
    Work seen;                     // what it has done so far,
    Clock::time_point moved_at{};  // and when that last changed
    std::optional<Loop::TimerId> look_timer;
    std::optional<std::string> given_up;  // why the daemon killed it
    std::optional<std::vector<ItemRecord>> shown;
    PushFailures failures;
  };
  [[nodiscard]] Job* find(const JobKey& key);
  void set_timer(const JobKey& key);
  void due(const JobKey& key);
  void go_on(JobRecord& record);
  Turns::Begun start(const JobKey& key);
  Status start_worker(JobRecord& record, const PushWanted& wanted);
  void look(const JobKey& key);
  void tick(const JobKey& key, Ticket ticket);
  void worker_ended(const JobKey& key, WorkerEnd end);
  void note_end(JobRecord& record, Job& job, const WorkerStatus& status, const WorkerEnd& end);
  void notify_user(JobRecord& record, const Job& job, const WorkerStatus& status,
                   const WorkerEnd& end, bool was_awaited);
  using Answer = std::function<Message(const std::vector<std::string>& names)>;
  bool answer(Job& job, bool served_only, Answer make);
  void answer_some();

  Deps deps_;
  Turns turns_{deps_.loop};
  std::map<JobKey, Job> jobs_;
  struct Owed {
    Reply reply;
    std::vector<std::string> names;
    std::shared_ptr<const Answer> answer;
  };
  std::deque<Owed> owed_;  // a user can have thousands of callers: some are answered at a time
  std::optional<Loop::TimerId> answer_timer_;
};

}  // namespace nodestage
