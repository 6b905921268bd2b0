// Measurements: how large held results are. A process of the user measures, which the user can stop
// or kill: what it has not reported in time counts as too large, and is measured again later. So is
// what was measured, at each try to deliver it and once an hour, since it can grow: a process that
// had a file there open before can write to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "common/wire/status_file.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/turns.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Measurements {
 public:
  // One has ended: due() has changed.
  using OnEnd = std::function<void(const JobKey& key)>;
  // Whether the results are about to be removed.
  using IsLeaving = std::function<bool(const JobKey& key)>;

  Measurements(Loop& loop, JobTable& table, const JobFiles& files, JobWorkers& workers,
               std::size_t of_one_user, IsLeaving is_leaving, OnEnd on_end)
      : loop_(loop),
        table_(table),
        files_(files),
        workers_(workers),
        turns_(loop, of_one_user),
        is_leaving_(std::move(is_leaving)),
        on_end_(std::move(on_end)) {}

  // Measures when it is the user's turn. The result goes into the record and the journal.
  void ask(const JobRecord& record);
  // Plans the next measurement of what was measured before.
  void expect(const JobKey& key);
  [[nodiscard]] bool is_running(const JobKey& key) const;
  // Returns when the next measurement is due, in seconds since 1970.
  [[nodiscard]] std::optional<std::uint64_t> due(const JobKey& key) const;
  // Whether a size that is not known yet should be known by now.
  [[nodiscard]] bool is_late(const JobKey& key) const;
  void forget(const JobKey& key) { tries_.erase(key); }

 private:
  struct Tries {
    std::uint64_t since = 0;  // seconds since 1970
    std::uint32_t failed = 0;
    std::optional<std::uint64_t> due;
  };
  Turns::Begun start(const JobKey& key);
  void measured(const JobKey& key, std::uint32_t uid, const WorkerEnd& end);
  void note(JobRecord& record, const ItemRecord& measured);
  void try_later(const JobKey& key);

  Loop& loop_;
  JobTable& table_;
  const JobFiles& files_;
  JobWorkers& workers_;
  Turns turns_;
  IsLeaving is_leaving_;
  OnEnd on_end_;
  std::map<JobKey, Tries> tries_;
};

}  // namespace nodestage
