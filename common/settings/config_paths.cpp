#include "common/settings/config_paths.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "common/os/local_user.hpp"
#include "common/os/only_owner.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
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
