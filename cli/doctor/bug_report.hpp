// The text of `nodestage doctor --report=FILE`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"

namespace nodestage {

// Redactor: takes out of a text what says whose it is, or where, for a bug report that is public.
// It keeps paths below /etc, /usr, /run, and /var, and no other path.

// The names that must not be in a report, as far as this host knows them.
struct PrivateNames {
  std::vector<std::string> users;
  std::vector<std::string> hosts;  // and the cluster
  std::vector<std::string> paths;  // that might have a blank, and are not recognized by their form
};

// Returns the caller, the caller's home, and this host.
PrivateNames names_here();

class Redactor {
 public:
  explicit Redactor(PrivateNames names);

  // Each path becomes <path-N>, the same path the same N; a user <user>, a host <host>, a network
  // address <address>.
  std::string redact(std::string_view text);

 private:
  std::string without_known_paths(std::string text);
  std::string without_paths(std::string_view text);
  std::string without_names(std::string_view text) const;
  const std::string& path_name(const std::string& path);

  PrivateNames names_;
  std::map<std::string, std::string> words_;  // in lower case, and what is written instead
  std::map<std::string, std::string> paths_;
};

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
