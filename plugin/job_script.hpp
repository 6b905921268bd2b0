// The plugin in the prolog and the epilog: the daemon hears that a job begins and ends. Runs as
// root, each time in a new process. Both return 0 whatever happens: anything else drains the node.
#pragma once

#include "plugin/plugin_settings.hpp"

namespace nodestage {

int job_prolog(const PluginSettings& settings);
int job_epilog(const PluginSettings& settings);

}  // namespace nodestage
