// Ending: what is done for a job that has ended, once it is stopped: its epilog waits for an
// answer, its results are staged out or moved to the hold area, and its tree becomes trash. What
// comes next is in flow.hpp.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/flow/job_events.hpp"
#include "daemon/root/held/held_results.hpp"
#include "daemon/root/held/hold.hpp"
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
    HeldResults& held;  // informs users; a try may have been its
    const JobOutput& output;
    Counters& counters;
    JobEvents& events;
  };
  explicit Ending(const Places& places) : at_(places) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  // The epilog waits. Returns its ticket, or 0 when it has its answer already.
  Ticket end(const JobKey& key, const End& end, Ticket ticket, const Reply& reply);
  bool leave(Ticket ticket);
  // The epilog's answer, if it still waits.
  void answer(const JobKey& key, const Ended& ended);

  // What is left of the directory of a job that may have run.
  [[nodiscard]] Tree tree_of(const JobRecord& record) const;
  // Whether the epilog waits no longer and the site unmounts the directory.
  [[nodiscard]] bool is_late(const JobKey& key) const { return late_.contains(key); }

  // Reports `delivered` or `undelivered`.
  void stage_out(JobRecord& record);
  // For a job that is carried on from the journal: the worker that its record notes, if it lives.
  bool adopt(JobRecord& record);
  void worker_ended(const JobKey& key, const WorkerEnd& end);
  // To the user and to the job's output, that everything is delivered. Reports `reported`.
  void report(JobRecord& record);
  // The epilog could wait no longer. Reports `undelivered`.
  void give_up(JobRecord& record);
  // What was not delivered. Reports `kept` or `unkept`.
  void keep(JobRecord& record);
  // Makes way for another run of the job. If that fails, record.in_hold stays false.
  void move_to_hold(JobRecord& record) const;
  // Says what is lost, in the log, in the job's output and to its epilog.
  void lose(JobRecord& record, Loss loss);
  // The same of what another program has removed. Returns whether anything was lost by that.
  bool lose_what_was_removed(JobRecord& record);
  // Nothing of the job needs to be kept. Reports `removed`; or `remains` if its tree cannot be
  // moved to the trash, and `removed` later: the job stays in the table and the journal, as gone.
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
  void fail(JobRecord& record, const std::string& cause);
  void reported(const JobKey& key);
  void go_on_in_background(const JobKey& key);
  Status move_to_trash(const JobRecord& record);
  void remove_again_after(std::chrono::seconds pause);

  Places at_;
  std::map<JobKey, Enders> enders_;
  // Of jobs whose results are delivered, while their output hears of it: the end of the patience.
  std::map<JobKey, Loop::TimerId> reporting_;
  std::optional<Loop::TimerId> again_;  // for the trees of jobs that are gone
  std::set<JobKey> late_;  // in the site's directory, until the last worker there has been killed
};

}  // namespace nodestage
