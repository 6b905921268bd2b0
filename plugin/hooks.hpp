// The functions of the hooks, which spank_boundary.cpp calls: a section for each context, in a
// source of its own.
#pragma once

#include <string_view>

#include "common/request/request.hpp"
#include "common/settings/plugin_settings.hpp"
#include "plugin/slurm_host.hpp"

namespace nodestage {

// The plugin in sbatch, salloc and srun: options and the request. Runs as the user.

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

// The plugin in the prolog and the epilog: reports a job's start and end to the daemon. Runs as
// root, each time in a new process. Both functions always return 0: any other value drains the
// node.

int job_prolog(const PluginSettings& settings);
int job_epilog(const PluginSettings& settings);

// The plugin in slurmstepd: a task waits for its node's data before it runs, and the task's end is
// reported to the daemon.

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
