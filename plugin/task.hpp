// The plugin in slurmstepd: a task waits for its node's data before it runs, and the task's end is
// reported to the daemon.
#pragma once

#include <string_view>

#include "common/settings/plugin_settings.hpp"
#include "plugin/slurm_host.hpp"
#include "plugin/submit.hpp"

namespace nodestage {

// Takes an option that reached this step; the last value of each option counts. Never refuses: with
// an invalid --stage-wait, the step waits.
void step_option(StageOption option, std::string_view text);

// Reports to the daemon that a step does not wait, in the child that becomes the task, and as root
// so that no user can prevent it. Returns 0.
int task_init_privileged(spank_t spank, const PluginSettings& settings);

// Waits for the data, as the user, in the child that becomes the task. Returns 0 to run it, or -1
// to fail it: the cause was printed.
int task_init(spank_t spank, const PluginSettings& settings);

// Reports the end of a task, as root in slurmstepd. Returns 0 after a second per step at most.
int task_exit(spank_t spank, const PluginSettings& settings);

}  // namespace nodestage
