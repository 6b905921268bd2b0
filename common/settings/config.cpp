#include "common/settings/config.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>

#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/os/local_user.hpp"
#include "common/os/posix_acl.hpp"
#include "common/settings/config_keys.hpp"
#include "common/text/path_names.hpp"

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

namespace {

class PathFaults {
 public:
  // Job directories are made in it, so others must not be able to replace them.
  void root(const std::string& path, std::uint32_t owner) {
    if (!directory("tmpdir.path", path, "job directories are made in it: make it, as root")) return;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return;
    if (!is_changed_by_owner_only(info, owner))
      add("tmpdir.path", path, std::string(k_root_only) + ", since job directories are made in it");
  }

  // nodestaged makes the directory itself, but not its parent.
  void made(const char* setting, const std::string& path) {
    if (!exists(path))
      directory(setting, parent_of(path), "nodestaged makes its own directory in it");
  }

  bool directory(const char* setting, const std::string& path, const char* why) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
      if (is_missing()) add(setting, path, std::string("does not exist; ") + why);
      return false;
    }
    if (!S_ISDIR(info.st_mode)) add(setting, path, std::string("is not a directory; ") + why);
    return S_ISDIR(info.st_mode);
  }

  // An empty path means that there is none.
  void file(const char* setting, const std::string& path) {
    if (!path.empty() && !exists(path)) add(setting, path, "does not exist");
  }

  void user(const char* setting, const std::string& name) {
    add(setting, name, "is not in /etc/passwd: make it, or install the package");
  }

  std::vector<std::string> take() { return std::move(faults_); }

 private:
  static bool is_missing() { return errno == ENOENT || errno == ENOTDIR; }
  static bool exists(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 || !is_missing();
  }
  void add(const char* setting, const std::string& path, const std::string& what) {
    faults_.push_back(std::string(setting) + ": " + path + " " + what);
  }

  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> faults_of_paths(const Config& config, std::uint32_t owner) {
  PathFaults faults;
  faults.root(tmpdir_root(config), owner);
  faults.made("daemon.state_dir", config.daemon.state_dir);
  faults.made("daemon.socket", parent_of(config.daemon.socket));
  if (!config.metrics.textfile.empty())
    faults.directory("metrics.textfile", parent_of(config.metrics.textfile),
                     "the metrics are written there");
  for (const std::string& wheels : config.venv.find_links)
    faults.directory("venv.find_links", wheels, "environments are built from the wheels in it");
  if (config.venv.installer == VenvInstaller::uv) faults.file("venv.uv", config.venv.uv);
  faults.file("venv.module_init", config.venv.module_init);
  if (config.cache.scope == ShareScope::readers && !local_user(config.cache.keeper))
    faults.user("cache.keeper", config.cache.keeper);
  faults.file("peer.key_file", config.peer.key_file);
  if (config.peer.barrier != UseBarrier::off) faults.file("peer.program", config.peer.program);
  faults.file("slurm.scontrol", config.slurm.scontrol);
  faults.file("daemon.worker_path", config.daemon.worker_path);
  return faults.take();
}

}  // namespace nodestage
