// RateShares: the node's rates for reading sources (`read.max_rate`) and for writing to targets
// (`stageout.max_rate`), divided among the jobs.
//
// Each user whose jobs move data gets the same part, and each of that user's jobs that moves data
// the same part of it. A job that stands still keeps a small part, to begin again with. Each job
// has a file for each rate, beside its status files, which its workers read again every second
// (k_worker_rate_fd), also when another daemon has started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/table/job_files.hpp"

namespace nodestage {

// A job that shares in a rate.
struct Mover {
  uid_t uid = 0;
  bool moves = true;
};

// Returns the part of one of them in `rate`; 0: no limit.
std::uint64_t rate_share(std::uint64_t rate, const Mover& mover, const std::vector<Mover>& all);

class RateShares {
 public:
  RateShares(Loop& loop, const Config& config, const JobFiles& files)
      : loop_(loop), config_(config), files_(files) {}
  RateShares(const RateShares&) = delete;

  // Adds a worker that will start. Returns its file; none if it shares in no rate.
  [[nodiscard]] Result<Fd> join(const JobKey& key, WorkerTask task, uid_t uid);
  // Removes a worker that has exited, or did not start.
  void leave(const JobKey& key, WorkerTask task);
  // Divides the rates anew. Call it when one may have changed.
  void share();

 private:
  using Which = std::pair<RateKind, JobKey>;
  struct Job {
    Mover mover;
    unsigned workers = 0;
    std::uint64_t moved = 0;  // bytes
    Clock::time_point moved_at{};
    std::optional<std::uint64_t> share;  // as in its file
  };
  [[nodiscard]] std::uint64_t rate_of(RateKind kind) const;
  [[nodiscard]] std::uint64_t moved_by(const Which& which) const;
  void look();
  void look_at(const Which& which, Job& job);
  void put(const Which& which, Job& job, std::uint64_t share);

  Loop& loop_;
  const Config& config_;
  const JobFiles& files_;
  std::map<Which, Job> jobs_;
  std::optional<Loop::TimerId> timer_;
};

}  // namespace nodestage
