// The text of `nodestage status`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/slurm_job.hpp"
#include "cli/status/status_nodes.hpp"
#include "common/result.hpp"

namespace nodestage {

// What is known of a job that has ended, where no daemon can be asked: its state in Slurm, and what
// nodestage wrote into the job's output.

// Asks Slurm for the job's output, and reads it: only a regular file of the job's user. `wanted` is
// the job as the user named it.
JobEnd end_of_job(const SlurmJob& job, const std::string& wanted);

// Returns the end of a file, which must be a regular one of `owner`.
Result<std::string> read_output_end(const std::string& path, std::uint32_t owner);

// Returns the last lines of nodestage in the end of an output, without "nodestage: ", printable.
// How to fetch what a node keeps is left out if the node says later what became of that, and a line
// of progress if the node says a later one.
std::vector<std::string> lines_of_nodestage(std::string_view output);

// Returns whether the job, its staging or the delivery of its results has failed, as far as is
// known. Pure.
bool has_failed(const StatusReport& report);

// Returns the text that shows it, with newlines. Pure.
std::string end_text(const JobEnd& end, const std::string& job, const std::string& state);

enum class Owners { hide, name };
inline constexpr std::size_t k_any_width = static_cast<std::size_t>(-1);

// Returns a table for each job, with a line for each node and item, and notes below it. Ends with a
// newline. Contains no control characters but newlines and, with has_colour, colors. `job` is the
// requested one; "": all. Where a table is wider than `width` columns, it has fewer of its columns
// and shorter names of items: RATE and LEFT go last.
std::string status_text(const StatusReport& report, const std::string& job, Owners owners,
                        bool has_colour = false, std::size_t width = k_any_width);

}  // namespace nodestage
