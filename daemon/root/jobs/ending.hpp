// Ending: what is done for a job that has ended, once it is stopped: its epilog waits for an
// answer, its results are staged out or moved to the hold area, and its tree becomes trash. What
// comes next is in flow.hpp.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/flow/flow.hpp"
#include "daemon/root/held/held_results.hpp"
#include "daemon/root/held/hold.hpp"
#include "daemon/root/staging/staging.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/tasks/job_output.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Ending {
 public:
  struct Deps : JobDeps {
    HeldResults& held;  // informs users; a try may have been its
    const JobOutput& output;
    const Staging& staging;
  };
  explicit Ending(const Deps& deps) : deps_(deps) {}
  Ending(const Ending&) = delete;

  // Takes in that the epilog waits. Returns its ticket, or 0 when it has its answer already.
  Ticket end(const JobKey& key, const End& end, Ticket ticket, const Reply& reply);
  // Removes an epilog that went away. Returns whether the ticket was one of these.
  bool leave(Ticket ticket);
  // Answers the epilog, if it still waits.
  void answer(const JobKey& key, const Ended& ended);

  // Returns what is left of the directory of a job that may have run.
  [[nodiscard]] Tree tree_of(const JobRecord& record) const;
  // Whether the epilog waits no longer and the site unmounts the directory.
  [[nodiscard]] bool is_late(const JobKey& key) const { return late_.contains(key); }

  // Starts a worker that copies the results back. Reports `delivered` or `undelivered`.
  void stage_out(JobRecord& record);
  // Takes over the worker that the record of a job from the journal notes. Returns whether it
  // lives.
  bool adopt(JobRecord& record);
  void worker_ended(const JobKey& key, const WorkerEnd& end);
  // Writes to the user and to the job's output that everything is delivered. Reports `reported`.
  void report(JobRecord& record);
  // Stops the stage-out for which the epilog could wait no longer. Reports `undelivered`.
  void give_up(JobRecord& record);
  // Moves what was not delivered to the hold area. Reports `kept` or `unkept`.
  void keep(JobRecord& record);
  // Moves the tree to the hold area, out of the way of another run of the job. If that fails,
  // record.in_hold stays false.
  void move_to_hold(JobRecord& record) const;
  // Says what is lost, in the log, in the job's output and to its epilog.
  void lose(JobRecord& record, Loss loss);
  // Does the same for what another program has removed. Returns whether anything was lost by that.
  bool lose_what_was_removed(JobRecord& record);
  // Moves the tree of a job of which nothing needs to be kept to the trash. Reports `removed`; or
  // `remains` if that fails, and `removed` later: the job stays in the table and the journal, as
  // gone.
  void finish(JobRecord& record);
  // Tries again to remove the trees of jobs that are gone: what kept them may be away by now.
  void remove_again();

 private:
  struct Ender {
    Reply reply;
    Loop::TimerId timer{};
  };
  using Enders = std::map<Ticket, Ender>;

  Status start_worker(JobRecord& record);
  void fail(JobRecord& record, const std::string& cause);
  void append(
      const JobRecord& record, std::vector<std::string> lines,
      const std::function<void()>& on_done = [] {}) const;
  void reported(const JobKey& key);
  void go_on_in_background(const JobKey& key);
  Status move_to_trash(const JobRecord& record);
  void remove_again_after(std::chrono::seconds pause);

  Deps deps_;
  std::map<JobKey, Enders> enders_;
  // Of jobs whose results are delivered, while their output hears of it: the end of the patience.
  std::map<JobKey, Loop::TimerId> reporting_;
  std::optional<Loop::TimerId> again_;  // for the trees of jobs that are gone
  std::set<JobKey> late_;  // in the site's directory, until the last worker there has been killed
};

}  // namespace nodestage
