// Reads settings of slurm.conf from the file itself: for the daemon, and for the plugin, since the
// program that runs its prolog and epilog gets only some of them from slurmd from Slurm 23.11 on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace nodestage {

struct SlurmConf {
  std::map<std::string, std::string> values;  // by the keys in lower case; the last value counts

  // Returns the value as Slurm takes it, "" if there is none. Names of keys have no case.
  [[nodiscard]] std::string value(std::string_view key) const;
};

// Reads the file with those that it includes; nullopt: the file cannot be read.
std::optional<SlurmConf> read_slurm_conf(const std::string& path);

// Reads it for one setting.
std::optional<std::string> setting_in_slurm_conf(const std::string& path, std::string_view key);

// Returns whether PrologFlags= of this value has a job's prologs run at its allocation. All flags
// but Serial imply Alloc.
bool implies_alloc(std::string_view prolog_flags);

// SLURM_JOB_CPUS_PER_NODE: "4(x2),2" means 4, 4 and 2 CPUs on the job's three nodes.

// Returns the CPUs of the node with index `node_index`; nullopt if the text is malformed before
// that node or names fewer nodes.
std::optional<std::uint32_t> cpus_of_node(std::string_view text, std::size_t node_index);

}  // namespace nodestage
