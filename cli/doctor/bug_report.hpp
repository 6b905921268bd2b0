// The text of `nodestage doctor --report=FILE`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/finding.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/redactor.hpp"
#include "cli/doctor/slurm_checks.hpp"
#include "cli/doctor/version_text.hpp"

namespace nodestage {

struct BugReport {
  Facts version;
  std::string system;       // of /etc/os-release
  std::string daemon;       // its version; "": does not answer
  std::string tmpdir_type;  // of its file system; "": not known
  std::vector<Finding> findings;
  std::string settings;  // the text of nodestaged.toml
  SlurmConfig slurm;
  std::optional<PlugstackLine> line;
};

// Returns all of it redacted for readers outside of the site.
std::string bug_report_text(const BugReport& report, Redactor& redactor);

// Returns the hosts and the cluster that Slurm's configuration names.
std::vector<std::string> hosts_in(const SlurmConfig& config);
// Does the same of the text of slurm.conf, for when slurmctld does not answer.
std::vector<std::string> hosts_in_file(std::string_view slurm_conf);

// Returns the file system below a path, from the text of /proc/self/mounts; "": not known.
std::string file_system_of(const std::string& path, std::string_view mounts);

// Returns PRETTY_NAME of the text of /etc/os-release.
std::string system_name(std::string_view os_release);

}  // namespace nodestage
