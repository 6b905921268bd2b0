// The plugin in sbatch, salloc and srun: options and the request. Runs as the user.
#pragma once

#include "common/request/request.hpp"
#include "common/settings/plugin_settings.hpp"
#include "plugin/slurm_host.hpp"

namespace nodestage {

// The options' numbers, as Slurm passes them to the callback.
enum class StageOption : int { dataset = 1, output = 2, wait = 3, venv = 4 };

// Drops what is inherited from an outer job, before the options are read. Returns 0.
int submit_init(spank_t spank, const PluginSettings& settings);

// Takes one occurrence of an option. Returns 0, or -1 after printing the cause.
int submit_option(StageOption option, std::string_view text);

// Puts, after all options (of one heterogeneous component), the request into the job-control
// environment. Returns 0, or -1 after printing the cause.
int submit_request(spank_t spank, const PluginSettings& settings);

// At the end of salloc and srun, whose job has ended by then: waits a while for the epilogs, which
// deliver the job's results, and says where it stands that they have arrived. Returns 0.
int submit_exit(const PluginSettings& settings);

}  // namespace nodestage
