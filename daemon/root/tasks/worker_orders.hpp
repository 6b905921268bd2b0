// The orders and limits of a job's workers, from the job's record and the settings. Pure functions,
// which JobWorkers calls.
#pragma once

#include <chrono>
#include <string>

#include "common/settings/config.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/workers/worker_process.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

// Returns the name of the worker's cgroup.
std::string cgroup_of(const JobRecord& record, WorkerTask task);

Workers::Limits limits_of(WorkerTask task, const Config& config);
CgroupLimits resources_of(const JobRecord& record, const Config& config);

// Returns all of the order that follows from the record and the settings; `directory` is the path
// of the job's. The caller fills in the descriptors.
WorkerStart order_for(const JobRecord& record, WorkerTask task, const Config& config,
                      const std::string& directory);

// Returns how long a relay worker waits for its plan: longer in a large job, whose first node
// answers all of its nodes.
std::chrono::seconds relay_wait_of(const Begin& begin, const Config& config);

// Whether the node stages for the job's user (staging.users and staging.groups). Only the job's
// worker knows the user's groups.
enum class MayStage { yes, no, by_groups };
MayStage may_stage(const Begin& begin, const Config& config);
// Returns the reason if it does not.
std::string pilot_refusal(const Begin& begin);

// Returns the reason on a node that cannot stop what the programs of environments leave behind.
std::string venv_refusal(const std::string& node);

}  // namespace nodestage
