// Warns of several writers of one target: of two files with the same name, only one remains.
// Sentences have one line each, are not made printable, and follow from the options' text alone.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"

namespace nodestage {

// Warns of two outputs of one job.
std::vector<std::string> outputs_of_one_target(const std::vector<OutputItem>& outputs);

// Warns of the tasks of an array, where the target names neither the task (%a) nor its job (%j).
std::vector<std::string> tasks_of_one_target(const std::vector<OutputItem>& outputs);

// Warns of components of a heterogeneous job, each of which is a job (%j, %A). `earlier` has the
// outputs of the components before this one.
std::vector<std::string> components_of_one_target(const std::vector<OutputItem>& outputs,
                                                  const std::vector<OutputItem>& earlier);

}  // namespace nodestage
