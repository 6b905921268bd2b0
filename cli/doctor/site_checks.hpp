// The judgments of `nodestage doctor` on what a site itself does with job directories: plugins that
// are listed earlier, and the scripts that slurm.conf names.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor/finding.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/slurm_checks.hpp"

namespace nodestage {

// The plugins in front of nodestage's whose files export an epilog; Slurm calls epilogs in the
// order of the lines. `plugin_directory`: where their names are looked up. Reads the files.
std::vector<Finding> judge_earlier_epilogs(const std::vector<PlugstackLine>& earlier,
                                           const std::string& plugin_directory,
                                           const std::string& tmpdir_root);

// The scripts of Prolog, Epilog, and TaskProlog that name the place of job directories. Reads the
// scripts. tmpdir_root: "" if not known.
std::vector<Finding> judge_scripts(const SlurmConfig& config, const std::string& tmpdir_root);

}  // namespace nodestage
