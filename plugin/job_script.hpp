// The plugin in the prolog and the epilog: reports a job's start and end to the daemon. Runs as
// root, each time in a new process. Both functions always return 0: any other value drains the
// node.
#pragma once

#include "common/settings/plugin_settings.hpp"

namespace nodestage {

int job_prolog(const PluginSettings& settings);
int job_epilog(const PluginSettings& settings);

}  // namespace nodestage
