#include "cli/doctor/bug_report.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <regex>

#include "cli/doctor/plugstack.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// What a path can have before it: not the end of a word, as in `MiB/s` and `proctrack/cgroup`.
bool may_precede_path(char c) {
  return !is_letter(c) && c != '_' && c != '-' && c != '.' && c != '/' && c != '>';
}

bool is_in_path(char c) {
  return std::string_view(" \t\n:,;=\"'`()[]{}<>|").find(c) == std::string_view::npos;
}

// Accounts and names that every installation has.
bool is_common(const std::string& name) {
  static constexpr const char* k_common[] = {"root",      "nobody",    "slurm",
                                             "nodestage", "localhost", "localdomain"};
  return name.empty() ||
         std::find(std::begin(k_common), std::end(k_common), name) != std::end(k_common);
}

bool is_public(const std::string& path) {
  if (path == "/" || path.find("/..") != std::string::npos) return path == "/";
  for (const char* directory : {"/etc", "/usr", "/run", "/var"}) {
    if (is_below(path, directory)) return true;
  }
  return false;
}

std::string without_addresses(const std::string& text) {
  static const std::regex k_address(
      R"(\b\d{1,3}(\.\d{1,3}){3}\b|\b[0-9a-fA-F]{1,4}(::?[0-9a-fA-F]{1,4}){3,7}\b)");
  return std::regex_replace(text, k_address, "<address>");
}

void add_user(PrivateNames& names, const passwd* entry) {
  if (entry == nullptr) return;
  names.users.emplace_back(entry->pw_name);
  names.paths.emplace_back(entry->pw_dir);
}

void add_host(PrivateNames& names) {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) != 0) return;
  const std::string name(host);
  names.hosts.push_back(name);
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return;
  names.hosts.push_back(name.substr(0, dot));
  names.hosts.push_back(name.substr(dot + 1));
}

}  // namespace

PrivateNames names_here() {
  PrivateNames names;
  add_user(names, ::getpwuid(::getuid()));
  for (const char* variable : {"USER", "LOGNAME", "SUDO_USER"}) {
    const char* user = std::getenv(variable);
    if (user == nullptr) continue;
    names.users.emplace_back(user);
    add_user(names, ::getpwnam(user));
  }
  for (const char* variable : {"HOME", "PWD", "TMPDIR"}) {
    if (const char* path = std::getenv(variable)) names.paths.emplace_back(path);
  }
  add_host(names);
  return names;
}

Redactor::Redactor(PrivateNames names) : names_(std::move(names)) {
  const auto add = [this](const std::vector<std::string>& list, const char* instead) {
    for (const std::string& name : list) {
      if (!is_common(name)) words_.emplace(lower(name), instead);
    }
  };
  add(names_.users, "<user>");
  add(names_.hosts, "<host>");
  std::sort(names_.paths.begin(), names_.paths.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string Redactor::redact(std::string_view text) {
  return without_addresses(without_names(without_paths(without_known_paths(std::string(text)))));
}

const std::string& Redactor::path_name(const std::string& path) {
  const auto [found, is_new] = paths_.try_emplace(path);
  if (is_new) found->second = "<path-" + std::to_string(paths_.size()) + ">";
  return found->second;
}

// Only those with a blank or the like: the others are found by their form, with what follows.
std::string Redactor::without_known_paths(std::string text) {
  for (const std::string& path : names_.paths) {
    if (path.size() < 2 || std::all_of(path.begin(), path.end(), is_in_path)) continue;
    for (std::size_t at = 0; (at = text.find(path, at)) != std::string::npos;) {
      std::size_t end = at + path.size();
      while (end < text.size() && is_in_path(text[end])) ++end;
      const std::string& name = path_name(text.substr(at, end - at));
      text.replace(at, end - at, name);
      at += name.size();
    }
  }
  return text;
}

std::string Redactor::without_paths(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '/' || (at > 0 && !may_precede_path(text[at - 1]))) {
      result += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_in_path(text[end])) ++end;
    while (end > at + 1 && text[end - 1] == '.') --end;  // of the sentence
    const std::string path(text.substr(at, end - at));
    result += is_public(path) ? path : path_name(path);
    at = end;
  }
  return result;
}

// Compares at each start of a word: a name can have a '.' or a '-' itself.
std::string Redactor::without_names(std::string_view text) const {
  const std::string small = lower(text);
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::string* instead = nullptr;
    std::size_t length = 0;
    for (const auto& [name, mark] : words_) {
      if (small.compare(at, name.size(), name) != 0 || name.size() <= length) continue;
      const std::size_t end = at + name.size();
      if ((at > 0 && is_letter(small[at - 1])) || (end < small.size() && is_letter(small[end])))
        continue;
      instead = &mark;
      length = name.size();
    }
    if (instead != nullptr) result += *instead;
    if (instead == nullptr) result += text[at];
    at += instead != nullptr ? length : 1;
  }
  return result;
}

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
  std::string type;
  std::size_t longest = 0;
  for (const std::string_view line : parts_of(mounts, '\n')) {
    const auto words = words_in(line);  // the device, the place, the type
    // Of mounts on one another, the last one counts.
    if (words.size() < 3 || !is_below(path, words[1]) || words[1].size() < longest) continue;
    longest = words[1].size();
    type = words[2];
  }
  return type;
}

std::string system_name(std::string_view os_release) {
  constexpr std::string_view k_key = "PRETTY_NAME=";
  for (const std::string_view line : parts_of(os_release, '\n')) {
    if (!line.starts_with(k_key)) continue;
    const std::string_view name = line.substr(k_key.size());
    const bool is_quoted = name.size() > 1 && name.front() == '"' && name.back() == '"';
    return std::string(is_quoted ? name.substr(1, name.size() - 2) : name);
  }
  return "";
}

}  // namespace nodestage
