// Comparisons: finds out whether trees of the cache are as they were published, by workers with the
// rights of their users, one at a time for each user, at the lowest priority.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "common/settings/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/cache/cache_area.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class Comparisons {
 public:
  // Reports on the entry of that name that was published at `before`: a success if it is as it was,
  // else why it does not count any more.
  using OnResult =
      std::function<void(const std::string& name, ChangeTime before, const std::string& fault)>;

  using Find = std::function<const CacheEntry*(const std::string& name)>;

  Comparisons(const CacheArea& area, Workers& workers, const Config& config, Find find,
              OnResult on_result)
      : area_(area),
        workers_(workers),
        config_(config),
        find_(std::move(find)),
        on_result_(std::move(on_result)) {}

  // Queues a comparison, unless one is queued already. Calls on_result later, once; not for an
  // entry that find() no longer knows when its turn has come.
  void ask(const CacheEntry& entry);

 private:
  struct Turn {
    std::set<std::string> waiting;  // names
    bool is_at_work = false;
  };
  void go_on(std::uint32_t uid);
  bool start(const CacheEntry& entry);
  void ended(const std::string& name, std::uint32_t uid, ChangeTime before, int status_fd,
             const WorkerEnd& end);

  const CacheArea& area_;
  Workers& workers_;
  const Config& config_;
  Find find_;
  OnResult on_result_;
  std::map<std::uint32_t, Turn> turns_;  // by uid
};

}  // namespace nodestage
