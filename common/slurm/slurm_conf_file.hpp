// Reads settings of slurm.conf from the file itself: for the daemon, and for the plugin, since the
// program that runs its prolog and epilog gets only some of them from slurmd from Slurm 23.11 on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nodestage {

// Returns the value that the file, with those that it includes, gives to `key` at last, as Slurm
// takes it; "" if none. Names of keys have no case. Returns nullopt if the file cannot be read.
std::optional<std::string> setting_in_slurm_conf(const std::string& path, std::string_view key);

// Returns whether PrologFlags= of this value has a job's prologs run at its allocation. All flags
// but Serial imply Alloc.
bool implies_alloc(std::string_view prolog_flags);

}  // namespace nodestage
