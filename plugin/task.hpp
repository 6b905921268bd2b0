// The plugin in slurmstepd: a task waits for its node's data before it runs, and the task's end is
// reported to the daemon.
#pragma once

#include <string_view>

#include "plugin/plugin_settings.hpp"
#include "plugin/spank_api.hpp"
#include "plugin/submit.hpp"

namespace nodestage {

// Takes an option that reached this step; the last value of each option counts. Never refuses: with
// an invalid --stage-wait, the step waits.
void step_option(StageOption option, std::string_view text);

// As root, in the child that becomes the task: reports to the daemon that a step does not wait.
// Runs as root so that no user can prevent it. Always 0.
int task_init_privileged(spank_t spank, const PluginSettings& settings);

// As the user, in the child that becomes the task. 0: run it; -1: it fails, and the cause was
// printed.
int task_init(spank_t spank, const PluginSettings& settings);

// As root in slurmstepd. Always 0; takes at most a second for the whole step.
int task_exit(spank_t spank, const PluginSettings& settings);

}  // namespace nodestage
