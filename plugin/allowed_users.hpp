// Whether this process's user may use the options, by the arguments of the plugin's line. For a
// pilot: the daemon decides by its own settings, whatever this says.
#pragma once

#include "common/settings/plugin_settings.hpp"

namespace nodestage {

// Asks the name service, as sbatch has done. Root may: the daemon sees the job's user.
bool is_allowed(const PluginSettings& settings);

}  // namespace nodestage
