// The judgments of `nodestage doctor` on what a site itself does with job directories: plugins that
// are listed earlier, and the scripts that slurm.conf names.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/finding.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/slurm_checks.hpp"

namespace nodestage {

// Names the plugins in front of nodestage's whose files, which it reads, export an epilog; Slurm
// calls epilogs in the order of the lines. Looks their names up in `plugin_directory`.
std::vector<Finding> judge_earlier_epilogs(const std::vector<PlugstackLine>& earlier,
                                           const std::string& plugin_directory,
                                           const std::string& tmpdir_root);

// Returns the scripts of Prolog, Epilog, and TaskProlog that name the place of job directories.
// Reads the scripts. tmpdir_root: "" if not known.
std::vector<Finding> judge_scripts(const SlurmConfig& config, const std::string& tmpdir_root);

}  // namespace nodestage
