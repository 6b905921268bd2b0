#include "common/settings/config.hpp"

#include <fcntl.h>
#include <toml++/toml.h>

#include <algorithm>

#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/settings/config_keys.hpp"

namespace nodestage {
namespace {

std::string at(const std::string& file, const toml::source_region& place) {
  return file + ":" + std::to_string(place.begin.line) + ": ";
}

std::string known_names(std::string_view section) {
  std::string names;
  for (const ConfigKey& key : all_config_keys()) {
    const std::string name = section.empty() ? key.section : key.name;
    if (!section.empty() && section != key.section) continue;
    if (section.empty() && names.ends_with(name)) continue;
    names += names.empty() ? name : ", " + name;
  }
  return names;
}

Status set_section(Config& config, const std::string& section, const toml::table& table,
                   const std::string& file) {
  for (const auto& [name, node] : table) {
    const auto same = [&, wanted = name.str()](const ConfigKey& key) {
      return key.section == section && key.name == wanted;
    };
    const auto key = std::find_if(all_config_keys().begin(), all_config_keys().end(), same);
    const std::string full = std::string(section).append(".").append(name.str());
    if (key == all_config_keys().end()) {
      std::string what = at(file, name.source()) + "unknown key '";
      if (full == "hold.keep_powered" || full == "hold.notify")
        return Error{EINVAL, what + full +
                                 "': this release does not have it; remove the line. Where Slurm "
                                 "powers nodes down, the epilog waits for the results"};
      what.append(full).append("'; the keys of [").append(section).append("] are: ");
      return Error{EINVAL, what + known_names(section)};
    }
    if (const auto allowed = key->set(config, node)) {
      return Error{EINVAL, at(file, node.source()) + "'" + full + "' must be " + *allowed};
    }
  }
  return {};
}

Status set_all(Config& config, const toml::table& document, const std::string& file) {
  for (const auto& [name, node] : document) {
    const std::string section(name.str());
    const bool known = std::any_of(all_config_keys().begin(), all_config_keys().end(),
                                   [&](const ConfigKey& key) { return key.section == section; });
    if (!known || !node.is_table()) {
      return Error{EINVAL, at(file, name.source()) + "unknown section or key '" + section +
                               "'; the sections are: " + known_names("")};
    }
    TRY(set_section(config, section, *node.as_table(), file));
  }
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& file_name) {
  Config config;
  config.daemon.worker_path = k_worker_path;
  config.peer.program = k_peer_path;
  try {
    TRY(set_all(config, toml::parse(text, file_name), file_name));
  } catch (const toml::parse_error& fault) {  // thrown by the library
    return Error{EINVAL, at(file_name, fault.source()) + std::string(fault.description())};
  }
  return config;
}

Result<Config> load_config(const std::string& path) {
  TRY_ASSIGN(const std::string text, read_file(AT_FDCWD, path, 1 << 20));
  return parse_config(text, path);
}

void set_rules(IdentifyOrder& order, const Config& config) {
  order.extract = config.extract;
  order.venv = config.venv;
  order.cache_never = config.cache.never;
  order.cache_min_age_s = config.cache.min_age_s;
}

std::vector<std::string> config_keys() {
  std::vector<std::string> names;
  for (const ConfigKey& key : all_config_keys())
    names.push_back(std::string(key.section) + "." + key.name);
  return names;
}

std::uint64_t epilog_wait_of(const Config& config) {
  if (config.stageout.epilog_wait_s != 0) return config.stageout.epilog_wait_s;
  return config.tmpdir.create == CreateDirectory::never ? 600 : 60;
}

std::string tmpdir_root(const Config& config) {
  return config.tmpdir.path.substr(0, config.tmpdir.path.rfind('/'));
}

std::string tmpdir_name_pattern(const Config& config) {
  return config.tmpdir.path.substr(config.tmpdir.path.rfind('/') + 1);
}

}  // namespace nodestage
