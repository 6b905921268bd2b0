// Ending: a job from its end to the last trace of it. Staging is stopped, results are staged out or
// held, and the tree becomes trash.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/held/held_results.hpp"
#include "daemon/root/held/hold.hpp"
#include "daemon/root/jobs/outcomes.hpp"
#include "daemon/root/jobs/peer_talk.hpp"
#include "daemon/root/jobs/waiting.hpp"
#include "daemon/root/push/pushes.hpp"
#include "daemon/root/staging/staging.hpp"
#include "daemon/root/table/job_events.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/metrics.hpp"
#include "daemon/root/table/reply.hpp"
#include "daemon/root/tasks/job_output.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Ending {
 public:
  struct Places {
    Loop& loop;
    const Config& config;
    Areas& areas;
    JobTable& table;
    const JobFiles& files;
    JobWorkers& workers;
    Staging& staging;
    HeldResults& held;
    const JobOutput& output;
    Pushes& pushes;
    PeerTalk& talk;
    Outcomes& outcomes;
    Waiting& waiting;
    Counters& counters;
    JobEvents& events;
  };
  explicit Ending(const Places& places) : at_(places) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  // The epilog waits. Returns its ticket, or 0 when it has its answer already.
  Ticket end(const JobKey& key, const End& end, Ticket ticket, const Reply& reply);
  bool leave(Ticket ticket);

  // The job's end is noted: by the epilog, or since none came. Its other nodes hear of it.
  void ended(JobRecord& record);
  // Stops the staging in any state; the results come next.
  void stop(JobRecord& record);
  // The staging is over: asks how the job ended, where that is not known here, and goes on.
  void stage_out(JobRecord& record);
  void start_stage_out(JobRecord& record);
  // For a job that is carried on from the journal: the worker that its record notes, if it lives.
  bool adopt(JobRecord& record);
  void worker_ended(const JobKey& key, const WorkerEnd& end);
  // Makes way for another run of the job. If that fails, record.in_hold stays false.
  void move_to_hold(JobRecord& record) const;
  // Nothing of the job needs to be kept. If its tree cannot be moved to the trash, the job stays in
  // the table and the journal, as gone, and that is tried again.
  void finish(JobRecord& record);
  // What kept trees of jobs that are gone may be away by now.
  void remove_again();

 private:
  struct Ender {
    Reply reply;
    Loop::TimerId timer{};
  };
  using Enders = std::map<Ticket, Ender>;

  Status start_worker(JobRecord& record);
  [[nodiscard]] bool has_nothing(const JobRecord& record) const;
  void delivered(JobRecord& record, const WorkerStatus& status);
  void tell_and_finish(JobRecord& record, const WorkerStatus& status);
  void told(const JobKey& key);
  void go_on_in_background(const JobKey& key);
  void hold(JobRecord& record, const std::string& cause);
  void lose(JobRecord& record, const std::string& cause, Loss loss);
  [[nodiscard]] bool is_taken_away(const JobRecord& record) const;
  void lose_what_was_removed(JobRecord& record);
  void answer(const JobKey& key, const Ended& ended);
  Status move_to_trash(const JobRecord& record);
  void remove_again_after(std::chrono::seconds pause);

  Places at_;
  std::map<JobKey, Enders> enders_;
  // Of jobs whose results are delivered, while their output hears of it: the end of the patience.
  std::map<JobKey, Loop::TimerId> telling_;
  std::optional<Loop::TimerId> again_;  // for the trees of jobs that are gone
  std::set<JobKey> late_;  // in the site's directory, until the last worker there has been killed
};

}  // namespace nodestage
