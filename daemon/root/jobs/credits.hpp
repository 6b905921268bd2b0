// Credits: Slurm charges staging to the job's time limit; with credit.enabled, the first node adds
// that time to the limit.
//
// What is owed is journaled with the state `ready`, so a restarted daemon carries on. `credited` is
// journaled before Slurm is asked: a daemon that dies in between adds nothing, and never twice.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/settings/config.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/slurm/credit.hpp"
#include "daemon/root/slurm/scontrol.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

// TimeLimits: when the time limit of a job ends that is still being staged, as Slurm reports it.

// Returns how long the staging will still take at its average speed, in seconds. Empty while that
// is a guess.
std::optional<std::uint64_t> seconds_left(const Progress& progress);

// Slurm is asked once for each job whose staging takes minutes, one job at a time.
class TimeLimits {
 public:
  TimeLimits(Loop& loop, const Config& config, JobTable& table)
      : loop_(loop), table_(table), questions_(loop, config) {}
  TimeLimits(const TimeLimits&) = delete;

  // Returns what the progress line says of a staging that will not end within the job's time limit;
  // "" otherwise, and while Slurm has not answered. After the limit, `progress` loses its total: it
  // will not be reached.
  std::string note(const JobRecord& record, Progress& progress);
  void forget(const JobKey& key) { ends_.erase(key); }

 private:
  void ask(const JobKey& key, const std::string& id);
  void take(const JobKey& key, const std::string& asked, const JobLimit& limit);

  Loop& loop_;
  JobTable& table_;
  JobQuestions questions_;
  // Of each job that was asked for: seconds since 1970; 0: not known.
  std::map<JobKey, std::uint64_t> ends_;
};

// Whether an environment is made now: python=, source distributions, and conda-unpack run programs
// of the job's user in the builder, so that time counts as use, as that of a step does.
bool makes_environment(const WorkerStatus& status);
// The milliseconds in which an environment was made, until now (since 1970).
std::uint64_t environment_ms(const WorkerStatus& status, std::uint64_t now_ms);

class Credits {
 public:
  explicit Credits(const JobDeps& deps) : deps_(deps), scontrol_(deps.loop, deps.config) {}

  // Note the steps here, and the other nodes, that use the job before it is ready: that time is not
  // credited. A user could stop the staging and work meanwhile in a step that claims only to look.
  void begin_look(const JobKey& key, std::uint32_t step);
  void end_look(const JobKey& key, std::uint32_t step);
  void note_use(const JobKey& key, const std::string& node, bool is_in_use);
  [[nodiscard]] bool is_looked_at(const JobKey& key) const;

  // Puts into the record, which the caller saves, what the job's limit is owed: from here on, a
  // step can run at any time, or a process that is in the job by other means. Nothing is owed to a
  // job that ran while it was staged (--stage-wait=none).
  void may_run(JobRecord& record);
  // Gives a job from the journal what is still owed. Nothing is owed if a step had looked at it,
  // because it is not known for how long.
  void carry_on(JobRecord& record);
  void forget(const JobKey& key) { accounts_.erase(key); }

 private:
  struct Account {
    std::map<std::uint32_t, std::size_t> steps;  // that only look: tasks of each, here
    std::set<std::string> nodes;                 // other ones, as they report
    std::optional<Clock::time_point> since;      // it has been in use
    Clock::duration time{};                      // in which it was
    unsigned tries = 0;
  };
  void count_use(Account& account) const;
  void note_looks(const JobKey& key, const Account& account);
  void owe(JobRecord& record);
  [[nodiscard]] std::uint64_t used_s(const JobKey& key) const;
  void queue(const JobKey& key, std::chrono::milliseconds delay);
  [[nodiscard]] JobRecord* find_owed(const JobKey& key);
  void go_on();
  void ask_limit(const JobKey& key, const std::string& id);
  void take_limit(const JobKey& key, const std::string& asked, const JobLimit& limit);
  void ask_max_time(const JobKey& key, const JobLimit& limit);
  void take_max_time(const JobKey& key, const JobLimit& limit, const Scontrol::Output& output);
  void raise_limit(JobRecord& record, const JobLimit& limit, std::uint32_t raised);
  void ask_raise(const JobRecord& record, const JobLimit& limit, std::uint32_t raised);
  void try_later(const JobKey& key, const std::string& why);
  void forgo(JobRecord& record, const std::string& why);

  JobDeps deps_;
  Scontrol scontrol_;
  std::map<JobKey, Account> accounts_;
  std::deque<JobKey> queue_;
  bool is_noting_ = false;  // in the journal, what Slurm is asked for next
};

}  // namespace nodestage
