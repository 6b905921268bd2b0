#include "common/settings/plugin_settings.hpp"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/wall_clock.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

struct SecondsSetting {
  std::string_view name;
  std::chrono::seconds PluginSettings::*value;
  std::uint32_t least;
  std::uint32_t most;
};

constexpr SecondsSetting k_seconds[] = {
    {"begin_wait", &PluginSettings::begin_wait, 0, 600},
    {"daemon_wait", &PluginSettings::daemon_wait, 0, k_day_s},
    {"stage_wait", &PluginSettings::stage_wait, 1, 30 * k_day_s},
    {"epilog_wait", &PluginSettings::epilog_wait, 1, k_day_s},
    {"progress", &PluginSettings::progress, 1, k_day_s},
    {"results_wait", &PluginSettings::results_wait, 0, k_day_s},
};

std::string set_seconds(PluginSettings& settings, const SecondsSetting& setting,
                        std::string_view text) {
  const auto number = parse_number<std::uint32_t>(text);
  if (!number || *number < setting.least || *number > setting.most) {
    return "a number of seconds from " + std::to_string(setting.least) + " to " +
           std::to_string(setting.most) + " is needed";
  }
  settings.*setting.value = std::chrono::seconds(*number);
  return {};
}

std::string set_path(std::string& path, std::string_view text) {
  if (!text.starts_with('/')) return "an absolute path is needed";
  path = text;
  return {};
}

// "NAME,PREFIX*"
std::string set_variables(PluginSettings& settings, std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view pattern : parts_of(text, ',')) {
    const std::string_view name = pattern.substr(0, pattern.size() - pattern.ends_with('*'));
    if (!is_variable_name(name)) return "names of variables are needed, such as RSNT_ARCH,EBROOT*";
    names.emplace_back(pattern);
  }
  settings.venv_environment = std::move(names);
  return {};
}

// "NAME,NAME"
std::string set_list(std::vector<std::string>& list, std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view name : parts_of(text, ',')) {
    if (name.empty()) return "names are needed, with a comma between them";
    names.emplace_back(name);
  }
  list = std::move(names);
  return {};
}

// Applies one argument. Returns what is wrong with it, or "".
std::string set_one(PluginSettings& settings, std::string_view argument) {
  const std::size_t equals = argument.find('=');
  const std::string_view name = argument.substr(0, equals);
  const std::string_view text =
      equals == std::string_view::npos ? std::string_view() : argument.substr(equals + 1);
  for (const auto& setting : k_seconds) {
    if (setting.name == name) return set_seconds(settings, setting, text);
  }
  if (name == "runtime_dir") return set_path(settings.runtime_dir, text);
  if (name == "socket") return set_path(settings.socket, text);
  if (name == "users") return set_list(settings.users, text);
  if (name == "groups") return set_list(settings.groups, text);
  if (name == "venv_environment") return set_variables(settings, text);
  return "unknown; known are socket, runtime_dir, begin_wait, daemon_wait, stage_wait, "
         "epilog_wait, progress, results_wait, venv_environment, users and groups";
}

}  // namespace

std::chrono::seconds epilog_wait_of(const PluginSettings& settings, bool powers_down) {
  if (settings.epilog_wait.count() != 0) return settings.epilog_wait;
  return std::chrono::seconds(powers_down ? k_day_s : 900);
}

PluginSettings parse_settings(std::span<char* const> arguments) {
  PluginSettings settings;
  for (const std::string_view argument : arguments) {
    const std::string wrong = set_one(settings, argument);
    if (wrong.empty()) continue;
    settings.complaints.push_back("plugstack.conf: argument '" + std::string(argument) +
                                  "' of spank_nodestage.so is ignored: " + wrong);
  }
  if (settings.socket.empty()) settings.socket = settings.runtime_dir + "/nodestaged.sock";
  return settings;
}

namespace {

constexpr std::size_t k_entry_bytes = std::size_t{1} << 20;  // a group can have many members

std::string user_name_of(uid_t uid) {
  std::vector<char> buffer(k_entry_bytes);
  struct passwd entry {};
  struct passwd* found = nullptr;
  const int fault = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return fault == 0 && found != nullptr ? found->pw_name : "";
}

// Nothing if there is no such group.
std::optional<gid_t> gid_of(const std::string& group) {
  if (const auto number = parse_number<gid_t>(group)) return *number;
  std::vector<char> buffer(k_entry_bytes);
  struct group entry {};
  struct group* found = nullptr;
  const int fault = ::getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (fault != 0 || found == nullptr) return {};
  return found->gr_gid;
}

std::vector<gid_t> own_groups() {
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(count < 0 ? 0 : static_cast<std::size_t>(count));
  if (::getgroups(count, groups.data()) != count) groups.clear();
  groups.push_back(::getegid());
  return groups;
}

}  // namespace

bool is_allowed(const PluginSettings& settings) {
  if ((settings.users.empty() && settings.groups.empty()) || ::getuid() == 0) return true;
  const auto& users = settings.users;
  if (!users.empty() &&
      std::find(users.begin(), users.end(), user_name_of(::getuid())) != users.end())
    return true;
  const std::vector<gid_t> own = own_groups();
  return std::any_of(settings.groups.begin(), settings.groups.end(), [&own](const auto& group) {
    const auto gid = gid_of(group);
    return gid && std::find(own.begin(), own.end(), *gid) != own.end();
  });
}

}  // namespace nodestage
