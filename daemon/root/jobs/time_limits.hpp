// TimeLimits: when the time limit of a job ends that is still being staged, as Slurm reports it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/settings/config.hpp"
#include "common/wire/protocol.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/slurm/credit.hpp"
#include "daemon/root/slurm/scontrol.hpp"
#include "daemon/root/table/job_table.hpp"

namespace nodestage {

// Returns how long the staging will still take at its average speed, in seconds. Empty while that
// is a guess.
std::optional<std::uint64_t> seconds_left(const Progress& progress);

// Slurm is asked once for each job whose staging takes minutes, one job at a time.
class TimeLimits {
 public:
  TimeLimits(Loop& loop, const Config& config, JobTable& table)
      : loop_(loop), table_(table), scontrol_(loop, config) {}
  TimeLimits(const TimeLimits&) = delete;
  TimeLimits& operator=(const TimeLimits&) = delete;

  // Returns what the progress line says of a staging that will not end within the job's time limit;
  // "" otherwise, and while Slurm has not answered. After the limit, `progress` loses its total: it
  // will not be reached.
  std::string note(const JobRecord& record, Progress& progress);
  void forget(const JobKey& key) { ends_.erase(key); }

 private:
  void ask(const JobKey& key, const std::string& id);
  void take(const JobKey& key, const std::string& asked, const JobLimit& limit);
  void go_on();

  Loop& loop_;
  JobTable& table_;
  Scontrol scontrol_;
  // Of each job that was asked for: seconds since 1970; 0: not known.
  std::map<JobKey, std::uint64_t> ends_;
  std::deque<JobKey> queue_;
};

}  // namespace nodestage
