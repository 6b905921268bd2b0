// Keeping: the processes of what is kept for all who may read its source (cache.scope = "readers").
//
// Two processes work together, and nothing but descriptors goes from the first to the second:
//   identify, as the job's user, opens the sources: the proof that the user may read them now.
//   look or keep, as the keeper, a user that nobody is and who can open none of them, looks at what
//   was opened, or stages it. The key and the tree are the keeper's word alone.
// The daemon makes the socket between them, and closes the keeper's end, where descriptors arrive,
// before the first is started: so it never closes what a user has opened, which could block.
#pragma once

#include <map>
#include <vector>

#include "common/settings/config.hpp"
#include "daemon/root/cache/cache.hpp"
#include "daemon/root/shares/space_allocator.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

// An item of a request, and the entry that is reserved for it.
struct KeepItem {
  SharedItem shared;
  CacheEntry entry;
};
using KeepItems = std::vector<KeepItem>;

class Keeping {
 public:
  Keeping(const JobDeps& deps, Cache& cache, SpaceAllocator& allocator)
      : deps_(deps), cache_(cache), allocator_(allocator) {}

  // Where something is kept for all, starts `look`, and changes the order of the `identify` that
  // will be started next for the job. Returns its end of the socket; on_end follows then. None
  // where nothing is kept for all.
  Fd look(JobRecord& record, WorkerStart& start, JobWorkers::OnEnd on_end);

  // Stages items of the job's, at least one, in the work directory of the first one's entry: starts
  // `keep`, and the `identify` that opens their sources in the job's directory (borrowed). on_end
  // follows. `keep` is killed if it has not got the sources within cache.identify_wait, since the
  // user can see to it that they never come; and if it has several items for too long, since other
  // users' jobs wait for one of them.
  Status keep(JobRecord& record, const KeepItems& items, int directory_fd,
              JobWorkers::OnEnd on_end);

  void kill(const JobKey& key);
  [[nodiscard]] bool is_keeping(const JobKey& key) const {
    return deps_.workers.is_working(key, WorkerTask::keep);
  }

 private:
  enum class Reason { empty_handed, too_long };
  void kill_after(std::chrono::seconds wait, const JobKey& key, Reason reason);
  [[nodiscard]] WorkerStart order_of_keeper(const JobRecord& record, WorkerTask task) const;

  JobDeps deps_;
  Cache& cache_;
  SpaceAllocator& allocator_;
  std::uint64_t keeps_ = 0;                 // started so far
  std::map<JobKey, std::uint64_t> number_;  // of the job's last one
};

}  // namespace nodestage
