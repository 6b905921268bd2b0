#include "cli/doctor/bug_report.hpp"

#include <sstream>

#include "cli/doctor/conf_text.hpp"
#include "cli/doctor/settings_text.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// Of `scontrol show config`. Values of others can name anything of the site.
constexpr const char* k_keys[] = {"SLURM_VERSION",
                                  "AuthType",
                                  "BatchStartTimeout",
                                  "CredType",
                                  "EpilogTimeout",
                                  "JobContainerType",
                                  "KillWait",
                                  "LaunchParameters",
                                  "MessageTimeout",
                                  "NamespaceType",
                                  "PrivateData",
                                  "ProctrackType",
                                  "PrologEpilogTimeout",
                                  "PrologFlags",
                                  "PrologTimeout",
                                  "SlurmdTimeout",
                                  "TaskPlugin",
                                  "TmpFS",
                                  "UnkillableStepTimeout"};

constexpr const char* k_set_or_not[] = {"Prolog", "Epilog", "TaskProlog", "JobSubmitPlugins"};

bool is_set(const std::string& value) { return !value.empty() && value != "(null)"; }

std::string slurm_text(const SlurmConfig& config) {
  if (config.empty()) return "(could not be read)\n";
  Facts facts;
  for (const char* key : k_keys) {
    const auto found = config.find(key);
    if (found != config.end()) facts.emplace_back(key, found->second);
  }
  for (const char* key : k_set_or_not) {
    bool found = false;
    for (const auto& [name, value] : config)
      found = found || ((name == key || name.starts_with(std::string(key) + "[")) && is_set(value));
    facts.emplace_back(key, found ? "(set)" : "(not set)");
  }
  return facts_text(facts);
}

std::string findings_text(const std::vector<Finding>& findings) {
  static constexpr const char* k_names[] = {"ok       ", "warning  ", "problem  "};
  std::string text;
  for (const Finding& finding : findings)
    text += k_names[static_cast<std::size_t>(finding.grade)] + printable(finding.what) + "\n";
  return text;
}

std::string line_text(const std::optional<PlugstackLine>& line) {
  if (!line) return "(no line for the plugin)\n";
  return line->file + ": " + (line->is_required ? "required " : "optional ") + line->plugin +
         arguments_text(*line) + "\n";
}

std::string or_unknown(const std::string& text) { return text.empty() ? "not known" : text; }

}  // namespace

std::string bug_report_text(const BugReport& report, Redactor& redactor) {
  Facts facts = report.version;
  facts.emplace_back("system", or_unknown(report.system));
  facts.emplace_back("nodestaged", or_unknown(report.daemon));
  facts.emplace_back("tmpdir is", or_unknown(report.tmpdir_type));
  const std::string text = facts_text(facts) + "\n== findings\n" + findings_text(report.findings) +
                           "\n== nodestaged.toml\n" + report.settings + "\n== plugstack.conf\n" +
                           line_text(report.line) + "\n== slurm.conf\n" + slurm_text(report.slurm);
  return version_line() +
         ": a report for a bug. Paths, users, and hosts are replaced; read it before you send it."
         "\n\n" +
         redactor.redact(text);
}

std::vector<std::string> hosts_in_file(std::string_view slurm_conf) {
  SlurmConfig config;
  for (const char* key : {"ClusterName", "SlurmctldHost", "AccountingStorageHost"}) {
    for (const std::string& value : values_in(slurm_conf, key))
      config.emplace(key + std::to_string(config.size()), value);
  }
  return hosts_in(config);
}

std::vector<std::string> hosts_in(const SlurmConfig& config) {
  std::vector<std::string> hosts;
  for (const auto& [name, value] : config) {
    if (!is_set(value)) continue;
    if (!name.starts_with("ClusterName") && name.find("Host") == std::string::npos) continue;
    // As in `ctl(10.0.0.1)`.
    const std::string host = value.substr(0, value.find_first_of("( ,:"));
    hosts.push_back(host);
    hosts.push_back(host.substr(0, host.find('.')));
  }
  return hosts;
}

std::string file_system_of(const std::string& path, std::string_view mounts) {
  std::istringstream lines{std::string(mounts)};
  std::string type;
  std::size_t longest = 0;
  for (std::string device, place, name, rest; lines >> device >> place >> name;) {
    std::getline(lines, rest);
    const bool is_above = place == "/" || path == place || path.starts_with(place + "/");
    // Of mounts on one another, the last one counts.
    if (!is_above || place.size() < longest) continue;
    longest = place.size();
    type = name;
  }
  return type;
}

std::string system_name(std::string_view os_release) {
  std::istringstream lines{std::string(os_release)};
  const std::string key = "PRETTY_NAME=";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    std::string name = line.substr(key.size());
    if (name.size() > 1 && name.front() == '"' && name.back() == '"')
      name = name.substr(1, name.size() - 2);
    return name;
  }
  return "";
}

}  // namespace nodestage
