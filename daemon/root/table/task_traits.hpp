// What the daemon does differently for the workers of each task, in one table.
#pragma once

#include <iterator>
#include <optional>

#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/table/metrics.hpp"

namespace nodestage {

// The rates of the node that its jobs share.
enum class RateKind {
  read,     // from sources
  deliver,  // to targets
};

struct TaskTraits {
  const char* name;                        // the end of the names of its status file and cgroup
  std::optional<RateKind> rate;            // in which it shares
  std::optional<Activity> activity;        // as which its work is counted
  ProcessMark JobRecord::*mark = nullptr;  // where the journal notes its process; null: nowhere
  bool keeps_list = false;                 // it notes what it delivers
};

inline const TaskTraits& traits_of(WorkerTask task) {
  static const TaskTraits k_traits[] = {
      {"stage", RateKind::read, Activity::stage, &JobRecord::worker},
      {"out", RateKind::deliver, Activity::stage_out, &JobRecord::worker, true},
      {"remove", {}, {}},
      {"measure", {}, {}},
      {"notice", {}, {}},
      {"recover", {}, {}},
      {"probe", {}, {}},
      {"identify", {}, {}},
      {"compare", {}, {}},
      {"push", RateKind::deliver, Activity::push, &JobRecord::pusher, true},
      {"relay", RateKind::read, {}, &JobRecord::relayer},
      {"append", {}, {}},
      {"look", {}, {}},
      {"keep", RateKind::read, Activity::stage},
  };
  static_assert(std::size(k_traits) == std::variant_size_v<WorkerOrder>);
  return k_traits[to_number(task)];
}

}  // namespace nodestage
