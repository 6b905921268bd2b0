// What a worker of a job is told and how it is limited, from the job's record and the settings.
// Pure functions, which JobWorkers calls.
#pragma once

#include <string>

#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/workers/worker_process.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

// The name of the worker's cgroup.
std::string cgroup_of(const JobRecord& record, WorkerTask task);

Workers::Limits limits_of(WorkerTask task, const Config& config);
CgroupLimits resources_of(const JobRecord& record, const Config& config);

// All of the order that follows from the record and the settings; `directory` is the job's, by its
// name. Descriptors are still to be filled in.
WorkerStart order_for(const JobRecord& record, WorkerTask task, const Config& config,
                      std::string directory);

// Where a node cannot end what programs leave behind: why its environments are not staged.
std::string venv_refusal(const std::string& node);

}  // namespace nodestage
