// The parts of `nodestage run`: the worker's order, in place of slurmd and the daemon, deliveries
// while the command runs, and the results that are left when they could not be delivered.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_dirs/private_directory.hpp"
#include "common/request/request.hpp"
#include "common/wire/daemon_client.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// Returns the file that execvp runs for `program`, which it looks up in `path` (as $PATH) if it has
// no slash. "" if there is none.
std::string program_file(const std::string& program, const std::string& path);

// Returns whether the file is a script whose first line names an interpreter and ends in a carriage
// return, as Windows writes lines.
bool has_windows_lines(const std::string& file);

// Returns why the file, which exists, cannot be run (`code`: execve's errno).
Error why_not_run(const std::string& file, int code);

// Uses the facts of the Slurm job that this process runs in, if any. Otherwise the job id is this
// process's id, the restart count and node index are 0, the job's name is the command's, and there
// is no array.
StageOutOrder run_order(const std::string& directory, const std::string& command);

// Returns the order's list of shared items, by which each is staged for this run alone.
std::vector<SharedItem> share_nothing(const StageRequest& request);

// Replaces sources with patterns by those that are meant. The fault names the source and says what
// to do.
Status name_sources(StageRequest& request, const NamedOrder& order);
// Checks that every target's patterns have a value. The fault names the target and says what to do.
Status check_targets(const StageRequest& request, const NamedOrder& order);

// TimedPushes: delivers the outputs with the key `every` while the command of `nodestage run` runs.
// One push at a time, in turns with `nodestage push`. Reports a failure once, and again only after
// a success: it does not stop the command.
class TimedPushes {
 public:
  using Say = std::function<void(const std::string&)>;

  // The first delivery of an output is due one interval after `now`. Borrows `place` and
  // `directory_fd`, the job directory.
  TimedPushes(const StageRequest& request, const PushDirectory* place, int directory_fd, Say say,
              Deadline now);

  // Returns how long nothing needs to be done, except at a SIGCHLD.
  [[nodiscard]] std::chrono::milliseconds patience(Deadline now) const;

  // Starts a worker for what is due, and says how one has ended. Never blocks.
  void step(Deadline now);

  // Kills a push under way.
  void stop() { worker_.reset(); }

 private:
  struct Timer {
    std::uint64_t bit;  // of PushOrder::push_items
    std::chrono::seconds interval;
    Deadline due;
  };
  void start(Deadline now);
  void note_end();
  void note_failure(const std::string& lines);  // each after a newline

  const PushDirectory* place_;
  int directory_fd_;
  Say say_;
  std::vector<Timer> timers_;
  Deadline no_earlier_;  // than this, since another push has its turn
  std::optional<WorkerChild> worker_;
  bool has_failed_ = false;
};

// Finds the results that are left in a job's directory when they could not be delivered.

// Returns the paths below the directory that --stage-out names, that exist, and whose when=
// applies; and what is kept because a name of --stage-out is missing (keeps_left()).
std::vector<std::string> kept_results(const StageRequest& request, const DeliveryOrder& order,
                                      const JobTree& directory);

// Returns whether an output must be there at the end: its when= applies, and it is not `optional`.
bool wants_results(const StageRequest& request, const DeliveryOrder& order);

// Returns whether a copy of these paths of the directory, as links and by their base names, would
// lack some of what they are: one of them is, or has below it, a link to elsewhere in the
// directory, or two have one name.
bool need_the_rest(const std::vector<std::string>& paths, const JobTree& directory);

// Returns "Fetch them with: cp -a /d/results ELSEWHERE && rm -rf /d"; without paths, of all.
std::string how_to_copy(const std::vector<std::string>& paths, const std::string& directory);

// Clears, in the next run, what one that was killed has left: removes the directories of this
// user's runs below `parent` (absolute) that were killed on this node: the records, the job
// directories that they name, and those in memory. A job directory with results stays: `say` gets
// where it is, and how to copy them, once. What may belong to a run that lives on another node is
// left alone, and so is a job directory without a record. Once `must_stop` says yes, which it then
// always does, this returns soon, and a later call goes on with the rest.
void clear_dead_runs(const std::string& parent, const std::function<void(const std::string&)>& say,
                     const std::function<bool()>& must_stop);

}  // namespace nodestage
