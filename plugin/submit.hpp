// The plugin in sbatch, salloc and srun: options and the request. Runs as the user.
#pragma once

#include "common/request/request.hpp"
#include "plugin/plugin_settings.hpp"
#include "plugin/spank_api.hpp"

namespace nodestage {

// Numbers of the options, as Slurm hands them to the callback.
enum class StageOption : int { dataset = 1, output = 2, wait = 3, venv = 4 };

// Before the options are read: nothing of an outer job is inherited.
int submit_init(spank_t spank, const PluginSettings& settings);

// One occurrence of an option. 0, or -1 after the cause has been printed.
int submit_option(StageOption option, std::string_view text);

// After all options (of one heterogeneous component): the request goes into the job-control
// environment. 0, or -1 after the cause has been printed.
int submit_request(spank_t spank, const PluginSettings& settings);

}  // namespace nodestage
