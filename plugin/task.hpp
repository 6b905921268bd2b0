// The plugin in slurmstepd: a task waits for its node's data before it runs, and its end is told to
// the daemon.
#pragma once

#include <string_view>

#include "plugin/plugin_settings.hpp"
#include "plugin/spank_api.hpp"
#include "plugin/submit.hpp"

namespace nodestage {

// An option as it reached this step: the last value of each. Never refuses; a step that has got an
// unreadable --stage-wait waits.
void step_option(StageOption option, std::string_view text);

// As root, in the child that will be the task: who does not wait is told of, and no user can be in
// the way of that. Always 0.
int task_init_privileged(spank_t spank, const PluginSettings& settings);

// As the user, in the child that will be the task. 0: run it; -1: it fails, the cause is printed.
int task_init(spank_t spank, const PluginSettings& settings);

// As root in slurmstepd. Always 0, within a second for the whole step.
int task_exit(spank_t spank, const PluginSettings& settings);

}  // namespace nodestage
