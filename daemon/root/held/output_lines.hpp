// What a job's output says of its results. Pure functions; the texts are printable and have one
// line each. JobOutput appends them.
#pragma once

#include <string>
#include <vector>

#include "common/wire/status_file.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/held/hold.hpp"

namespace nodestage {

// After the job's stage-out: a line for each output that was delivered or not, and one if
// deliveries had failed while the job ran. Of a job of several nodes, only the first one says that
// there was nothing to deliver.
std::vector<std::string> result_lines(const JobRecord& record, const WorkerStatus& status);

// The same for results that are held now, with how to fetch them. `cause`: for a status that does
// not say why.
std::vector<std::string> held_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause);

// What became of results that were held. `parting`: why they left; "": they are delivered.
std::vector<std::string> released_lines(const WorkerStatus& status, const std::string& parting);

// The same for results that are lost now.
std::vector<std::string> lost_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause, Loss loss);

}  // namespace nodestage
