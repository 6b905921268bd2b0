// Recoveries: copies of held results to a directory that their user names (`nodestage recover`), by
// workers that run as the user, a few at a time for each user.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/root/basis/loop.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/records.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Recoveries {
 public:
  // One has ended: the directory where everything is, or nothing when the results stay.
  using OnEnd = std::function<void(const JobKey& key, const std::optional<std::string>& directory)>;

  Recoveries(const JobDeps& deps, OnEnd on_end) : deps_(deps), on_end_(std::move(on_end)) {}

  // Takes in a caller, who gets the progress every second, and the results as recovered_to() says.
  // Nothing starts before go_on().
  void ask(const JobRecord& record, Ticket ticket, Reply reply, const std::string& wanted);
  // Starts when it is the user's turn: the results are held, and nothing else uses them.
  void go_on(const JobRecord& record);
  [[nodiscard]] bool is_busy(const JobKey& key) const { return asked_.count(key) > 0; }
  // Removes a caller that went away. Returns whether it was one of these.
  bool leave(Ticket ticket);
  // Gives the last answer, if a caller waits for it.
  void answer(const JobRecord& record, const Message& message);

 private:
  struct Asked {
    Ticket ticket = 0;
    Reply reply;  // none: its caller went away
    std::string directory;
    std::optional<Loop::TimerId> timer;
  };
  void report_progress(const JobKey& key);
  Turns::Begun start(const JobKey& key);
  Status start_worker(JobRecord& record, const Asked& asked);
  void ended(const JobKey& key, const WorkerEnd& end);

  JobDeps deps_;
  Turns turns_{deps_.loop};
  OnEnd on_end_;
  std::map<JobKey, Asked> asked_;
};

}  // namespace nodestage
