#include "common/settings/config.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>

#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/os/permissions.hpp"
#include "common/settings/config_setters.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

struct ConfigKey {
  const char* section;
  const char* name;
  Setter set;
};

#define MEMBER(path) \
  [](Config & c) -> auto& { return c.path; }

// Those of a section are neighbors.
const std::vector<ConfigKey>& all_config_keys() {
  static const std::vector<ConfigKey> k_keys = {
      {"tmpdir", "path", set_tmpdir_path},
      {"tmpdir", "create",
       choice<CreateDirectory>(MEMBER(tmpdir.create), {{"on-request", CreateDirectory::on_request},
                                                       {"always", CreateDirectory::always},
                                                       {"never", CreateDirectory::never}})},
      {"tmpdir", "wait", number(MEMBER(tmpdir.wait_s), 1, 86'400)},
      {"staging", "max_jobs", number(MEMBER(staging.max_jobs), 1, 10'000)},
      {"staging", "max_jobs_per_user", number(MEMBER(staging.max_jobs_per_user), 0, 10'000)},
      {"staging", "threads", number(MEMBER(staging.threads), 0, 1024)},
      {"staging", "leave_free", size(MEMBER(staging.leave_free_bytes))},
      {"staging", "trash_wait", number(MEMBER(staging.trash_wait_s), 0, 3600)},
      {"staging", "space_wait", number(MEMBER(staging.space_wait_s), 0, 86'400)},
      {"staging", "promise_share", number(MEMBER(staging.promise_share_percent), 1, 100)},
      {"staging", "promise_time", number(MEMBER(staging.promise_time_s), 1, 86'400)},
      {"staging", "limit", number(MEMBER(staging.limit_s), 1, 30 * 86'400)},
      {"staging", "groups_wait", number(MEMBER(staging.groups_wait_s), 1, 3600)},
      {"staging", "on_failure",
       choice<OnFailure>(MEMBER(staging.on_failure),
                         {{"fail", OnFailure::fail}, {"continue", OnFailure::proceed}})},
      {"staging", "hints", boolean(MEMBER(staging.hints))},
      {"staging", "users", user_names(MEMBER(staging.users))},
      {"staging", "groups", group_ids(MEMBER(staging.groups))},
      {"read", "max_rate", size(MEMBER(read.max_rate_bytes))},
      {"read", "start_jitter", number(MEMBER(read.start_jitter_s), 0, 3600)},
      {"read", "start_jitter_nodes", number(MEMBER(read.start_jitter_nodes), 1, 1'000'000)},
      {"extract", "escaping",
       choice<Escaping>(MEMBER(extract.escaping),
                        {{"fail", Escaping::fail}, {"skip", Escaping::skip}})},
      {"extract", "special",
       choice<Special>(MEMBER(extract.special),
                       {{"skip", Special::skip}, {"keep", Special::keep}})},
      {"extract", "xattrs", boolean(MEMBER(extract.xattrs))},
      {"extract", "max_entries", number(MEMBER(extract.max_entries), 1, k_no_largest)},
      {"extract", "max_ratio", number(MEMBER(extract.max_ratio), 1, k_no_largest)},
      {"memory", "path", path_or_empty(MEMBER(memory.path))},
      {"memory", "max_share", number(MEMBER(memory.max_share_percent), 1, 100)},
      {"memory", "step_wait", number(MEMBER(memory.step_wait_s), 0, 3600)},
      {"cache", "enabled", boolean(MEMBER(cache.enabled))},
      {"cache", "keep_free", number(MEMBER(cache.keep_free_percent), 0, 100)},
      {"cache", "max_bytes", size(MEMBER(cache.max_bytes))},
      {"cache", "max_age", number(MEMBER(cache.max_age_s), 1, 3650 * 86'400ULL)},
      {"cache", "identify_wait", number(MEMBER(cache.identify_wait_s), 1, 3600)},
      {"cache", "readers_wait", number(MEMBER(cache.readers_wait_s), 1, 86'400)},
      {"cache", "min_age", number(MEMBER(cache.min_age_s), 0, 86'400)},
      {"cache", "never", directories(MEMBER(cache.never))},
      {"cache", "scope",
       choice<ShareScope>(MEMBER(cache.scope),
                          {{"user", ShareScope::user}, {"readers", ShareScope::readers}})},
      {"cache", "keeper", user_name(MEMBER(cache.keeper))},
      {"venv", "build",
       choice<VenvBuild>(MEMBER(venv.build), {{"wheels-only", VenvBuild::wheels_only},
                                              {"off", VenvBuild::off},
                                              {"any", VenvBuild::any}})},
      {"venv", "find_links", directories(MEMBER(venv.find_links))},
      {"venv", "installer",
       choice<VenvInstaller>(MEMBER(venv.installer),
                             {{"pip", VenvInstaller::pip}, {"uv", VenvInstaller::uv}})},
      {"venv", "uv", absolute_path(MEMBER(venv.uv))},
      {"venv", "module_init", path_or_empty(MEMBER(venv.module_init))},
      {"venv", "limit", number(MEMBER(venv.limit_s), 1, 86'400)},
      {"stageout", "epilog_wait", number(MEMBER(stageout.epilog_wait_s), 0, 86'400)},
      {"stageout", "limit", number(MEMBER(stageout.limit_s), 1, 30 * 86'400)},
      {"stageout", "unkept",
       choice<UnkeptOutputs>(MEMBER(stageout.unkept), {{"refuse", UnkeptOutputs::refuse},
                                                       {"deliver", UnkeptOutputs::deliver}})},
      {"stageout", "max_rate", size(MEMBER(stageout.max_rate_bytes))},
      {"stageout", "least_interval", number(MEMBER(stageout.least_interval_s), 1, 86'400)},
      {"stageout", "push_stall", number(MEMBER(stageout.push_stall_s), 1, 86'400)},
      {"stageout", "report",
       choice<ReportTo>(
           MEMBER(stageout.report),
           {{"output", ReportTo::output}, {"file", ReportTo::file}, {"none", ReportTo::none}})},
      {"hold", "days", number(MEMBER(hold.days), 1, 3650)},
      {"hold", "max_bytes", size(MEMBER(hold.max_bytes))},
      {"hold", "max_inodes", number(MEMBER(hold.max_inodes), 0, 1'000'000'000'000)},
      {"hold", "max_jobs", number(MEMBER(hold.max_jobs), 0, 1'000'000)},
      {"hold", "retry_first", number(MEMBER(hold.retry_first_s), 1, 86'400)},
      {"hold", "retry_most", number(MEMBER(hold.retry_most_s), 1, 30 * 86'400)},
      {"hold", "warn_days", number(MEMBER(hold.warn_days), 0, 3650)},
      {"worker", "cgroup",
       choice<UseCgroups>(MEMBER(worker.cgroup),
                          {{"auto", UseCgroups::automatic}, {"off", UseCgroups::off}})},
      {"worker", "sandbox",
       choice<SandboxNeed>(MEMBER(worker.sandbox), {{"available", SandboxNeed::available},
                                                    {"required", SandboxNeed::required}})},
      {"worker", "memory", size(MEMBER(worker.memory_bytes))},
      {"worker", "pids", number(MEMBER(worker.pids), 16, 1'000'000)},
      {"worker", "kill_wait", number(MEMBER(worker.kill_wait_s), 1, 600)},
      {"peer", "barrier",
       choice<UseBarrier>(MEMBER(peer.barrier),
                          {{"auto", UseBarrier::automatic}, {"off", UseBarrier::off}})},
      {"peer", "port", number(MEMBER(peer.port), 1, 65'535)},
      {"peer", "user", user_name(MEMBER(peer.user))},
      {"peer", "begin_wait", number(MEMBER(peer.begin_wait_s), 1, 86'400)},
      {"peer", "silence_wait", number(MEMBER(peer.silence_wait_s), 1, 86'400)},
      {"peer", "on_missing",
       choice<OnMissing>(MEMBER(peer.on_missing),
                         {{"fail", OnMissing::fail}, {"continue", OnMissing::proceed}})},
      {"peer", "outcome_wait", number(MEMBER(peer.outcome_wait_s), 0, 3600)},
      {"peer", "io_wait", number(MEMBER(peer.io_wait_s), 1, 600)},
      {"peer", "max_connections", number(MEMBER(peer.max_connections), 8, 100'000)},
      {"peer", "addresses", addresses(MEMBER(peer.addresses))},
      {"peer", "key_file", path_or_empty(MEMBER(peer.key_file))},
      {"peer", "program", absolute_path(MEMBER(peer.program))},
      {"relay", "enabled", boolean(MEMBER(relay.enabled))},
      {"relay", "least_bytes", size(MEMBER(relay.least_bytes))},
      {"relay", "window", size(MEMBER(relay.window_bytes))},
      {"relay", "chain", number(MEMBER(relay.chain), 2, 100'000)},
      {"relay", "ports", set_relay_ports},
      {"relay", "silence_wait", number(MEMBER(relay.silence_wait_s), 2, 3600)},
      {"relay", "patience", number(MEMBER(relay.patience_s), 1, 3600)},
      {"relay", "answer_wait", number(MEMBER(relay.answer_wait_s), 1, 3600)},
      {"relay", "file_systems", file_systems(MEMBER(relay.file_systems))},
      {"relay", "site_rate", size(MEMBER(relay.site_rate_bytes))},
      {"relay", "addresses", addresses(MEMBER(relay.addresses))},
      {"slurm", "scontrol", absolute_path(MEMBER(slurm.scontrol))},
      {"slurm", "answer_wait", number(MEMBER(slurm.answer_wait_s), 1, 600)},
      {"credit", "enabled", boolean(MEMBER(credit.enabled))},
      {"credit", "max", number(MEMBER(credit.max_minutes), 1, 100'000)},
      {"credit", "least", number(MEMBER(credit.least_s), 1, 86'400)},
      {"records", "keep", number(MEMBER(records.keep), 0, 100'000)},
      {"records", "days", number(MEMBER(records.days), 1, 3650)},
      {"metrics", "textfile", path_or_empty(MEMBER(metrics.textfile))},
      {"daemon", "socket", absolute_path(MEMBER(daemon.socket))},
      {"daemon", "state_dir", absolute_path(MEMBER(daemon.state_dir))},
      {"daemon", "worker_path", absolute_path(MEMBER(daemon.worker_path))},
      {"daemon", "request_wait", number(MEMBER(daemon.request_wait_s), 1, 60)},
      {"daemon", "max_connections", number(MEMBER(daemon.max_connections), 16, 100'000)},
      {"daemon", "orphan_check", number(MEMBER(daemon.orphan_check_s), 1, 86'400)},
      {"daemon", "log_level",
       choice<std::string>(
           MEMBER(daemon.log_level),
           {{"debug", "debug"}, {"info", "info"}, {"warning", "warning"}, {"error", "error"}})},
  };
  return k_keys;
}

#undef MEMBER

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

std::vector<std::string> config_keys() {
  std::vector<std::string> names;
  for (const ConfigKey& key : all_config_keys())
    names.push_back(std::string(key.section) + "." + key.name);
  return names;
}

void set_rules(IdentifyOrder& order, const Config& config) {
  order.extract = config.extract;
  order.venv = config.venv;
  order.cache_never = config.cache.never;
  order.cache_min_age_s = config.cache.min_age_s;
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
