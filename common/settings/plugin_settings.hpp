// PluginSettings: the arguments of the plugin's line in plugstack.conf.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "common/build_info.hpp"

namespace nodestage {

struct PluginSettings {
  std::string runtime_dir = k_runtime_dir;  // absolute
  std::string socket;                       // absolute; default: nodestaged.sock in runtime_dir
  std::chrono::seconds begin_wait{5};       // how long the prolog tries to reach the daemon
  std::chrono::seconds daemon_wait{60};     // how long a task tries to reach an absent daemon
  std::chrono::seconds stage_wait{86400};   // the limit of a task's whole wait
  std::chrono::seconds epilog_wait{0};      // the limit of the epilog hook's whole wait; 0: not set
  std::chrono::seconds progress{10};        // between two progress lines, not on a terminal
  std::chrono::seconds results_wait{60};    // of salloc and srun for the job's results; 0: none
  std::vector<std::string> venv_environment;  // more variables for a build: "NAME", "PREFIX*"
  // Whose options are accepted at submission: names of users; names or numbers of groups. Both
  // empty: everybody's.
  std::vector<std::string> users;
  std::vector<std::string> groups;

  // What is wrong with the arguments, for the administrator. A bad argument keeps its default: a
  // typing error must not break every client command or drain a node.
  std::vector<std::string> complaints;
};

// The limit of the epilog hook's whole wait: 900 s unless it is set, and a day where Slurm may
// switch the node off afterwards.
std::chrono::seconds epilog_wait_of(const PluginSettings& settings, bool powers_down);

PluginSettings parse_settings(std::span<char* const> arguments);

// Whether this process's user may use the options, by the arguments of the plugin's line. For a
// pilot: the daemon decides by its own settings, whatever this says.

// Asks the name service, as sbatch has done. Root may: the daemon sees the job's user.
bool is_allowed(const PluginSettings& settings);

}  // namespace nodestage
