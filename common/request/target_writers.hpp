// Warnings of several writers of one target: of two files with the same name, only one remains.
// Sentences of one line each, not made printable. They follow from the options' text alone.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"

namespace nodestage {

// Two outputs of one job.
std::vector<std::string> outputs_of_one_target(const std::vector<OutputItem>& outputs);

// The tasks of an array, where the target names neither the task (%a) nor its job (%j).
std::vector<std::string> tasks_of_one_target(const std::vector<OutputItem>& outputs);

// Components of a heterogeneous job, each of which is a job (%j, %A); `earlier`: the outputs of the
// components before this one.
std::vector<std::string> components_of_one_target(const std::vector<OutputItem>& outputs,
                                                  const std::vector<OutputItem>& earlier);

}  // namespace nodestage
