// Looks for the paths that the settings name on this host, for `nodestaged --check`.
#pragma once

#include <string>
#include <vector>

#include "common/settings/config.hpp"

namespace nodestage {

// Returns a sentence for each path that nodestaged needs as the settings have it and that is not
// so: directories, the parents of those that it makes itself, programs, and files. Needs no root; a
// path that this process may not look up counts as there. `owner` must own the directory of the job
// directories: root, except in tests.
std::vector<std::string> faults_of_paths(const Config& config, std::uint32_t owner = 0);

}  // namespace nodestage
