#include "daemon/root/workers/cgroup.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "common/os/cgroup_paths.hpp"
#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 1 << 20;
constexpr std::uint64_t k_period_us = 100'000;

Status write_value(const std::string& file, const std::string& value) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, file, O_WRONLY));
  if (!write_all(fd.get(), value)) return system_error(file);
  return {};
}

std::vector<pid_t> processes_in(const std::string& directory) {
  std::vector<pid_t> pids;
  const auto text = read_file(AT_FDCWD, directory + "/cgroup.procs", k_max_bytes);
  if (!text) return pids;
  std::istringstream numbers(*text);
  for (pid_t pid = 0; numbers >> pid;) pids.push_back(pid);
  return pids;
}

constexpr const char* k_limiting[] = {"cpu", "memory", "pids"};

// Version 2: delegates the limiting controllers to the children of `directory`. A cgroup that does
// so must not hold processes itself (except the root), so this process moves into a leaf first.
Status enable_controllers(const std::string& directory) {
  TRY_ASSIGN(const std::string text,
             read_file(AT_FDCWD, directory + "/cgroup.controllers", k_max_bytes));
  std::istringstream names(text);
  std::string wanted;
  for (std::string name; names >> name;) {
    if (std::find(std::begin(k_limiting), std::end(k_limiting), name) != std::end(k_limiting))
      wanted += "+" + name + " ";
  }
  if (wanted.empty()) return {};
  const std::string leaf = directory + "/supervisor";
  if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) return system_error(leaf);
  TRY(write_value(leaf + "/cgroup.procs", "0"));
  return write_value(directory + "/cgroup.subtree_control", wanted);
}

// Version 2: the controllers that the children of `directory` have.
void add_enabled(const std::string& directory, std::set<std::string>& limited) {
  const auto text = read_file(AT_FDCWD, directory + "/cgroup.subtree_control", k_max_bytes);
  if (!text) return;
  std::istringstream names(*text);
  for (std::string name; names >> name;) limited.insert(name);
}

// Writes one limit in one hierarchy; does nothing if the file does not exist.
Status set_limit(const std::string& file, const std::string& value) {
  if (::access(file.c_str(), F_OK) != 0) return {};
  return write_value(file, value);
}

}  // namespace

Result<std::string> Cgroups::hand_on(const std::string& proc) {
  TRY_ASSIGN(const auto mounts, cgroup_mounts(proc));
  TRY_ASSIGN(std::string self, read_file(AT_FDCWD, proc + "/self/cgroup", k_max_bytes));
  const auto places = cgroups_in(self);
  const auto mount = mounts.find("");
  const auto place = places.find("");
  if (mount == mounts.end() || place == places.end()) return self;
  const std::string directory = directory_of(mount->second, place->second);
  if (!directory.empty() && ::access(directory.c_str(), W_OK) == 0)
    TRY(enable_controllers(directory));
  return self;
}

Result<Cgroups> Cgroups::discover(const std::string& cgroup, const std::string& proc) {
  TRY_ASSIGN(const auto mounts, cgroup_mounts(proc));
  const auto places = cgroups_in(cgroup);
  Cgroups found;
  std::set<std::string> limited;
  static constexpr std::pair<Kind, const char*> k_controllers[] = {
      {Kind::unified, ""},  {Kind::cpu, "cpu"},         {Kind::memory, "memory"},
      {Kind::pids, "pids"}, {Kind::freezer, "freezer"}, {Kind::systemd, "name=systemd"}};
  for (const auto& [kind, name] : k_controllers) {
    const auto mount = mounts.find(name);
    const auto place = places.find(name);
    if (mount == mounts.end() || place == places.end()) continue;
    Base base{kind, directory_of(mount->second, place->second)};
    if (base.directory.empty() || ::access(base.directory.c_str(), W_OK) != 0) continue;
    if (kind == Kind::unified) {
      add_enabled(base.directory, limited);
    } else {
      limited.insert(name);
    }
    found.bases_.push_back(std::move(base));
  }
  for (const char* name : k_limiting) {
    if (limited.count(name) == 0)
      found.missing_ += (found.missing_.empty() ? "" : ", ") + std::string(name);
  }
  return found;
}

std::string Cgroups::path(const Base& base, const std::string& name) const {
  return (base.directory + "/").append(k_worker_cgroup) + name;
}

Status Cgroups::set_limits(const std::string& directory, const CgroupLimits& limits) {
  const std::string quota = std::to_string(limits.cpus * k_period_us);
  TRY(set_limit(directory + "/cpu.max", quota + " " + std::to_string(k_period_us)));
  TRY(set_limit(directory + "/cpu.cfs_quota_us", quota));
  if (limits.memory_bytes != 0) {
    const std::string bytes = std::to_string(limits.memory_bytes);
    TRY(set_limit(directory + "/memory.max", bytes));
    TRY(set_limit(directory + "/memory.limit_in_bytes", bytes));
  }
  if (limits.pids != 0) TRY(set_limit(directory + "/pids.max", std::to_string(limits.pids)));
  return {};
}

Status Cgroups::create(const std::string& name, const CgroupLimits& limits) const {
  for (const Base& base : bases_) {
    const std::string directory = path(base, name);
    if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return system_error(directory);
    TRY(set_limits(directory, limits));
  }
  return {};
}

Status Cgroups::enter(const std::string& name) const {
  for (const Base& base : bases_) TRY(write_value(path(base, name) + "/cgroup.procs", "0"));
  return {};
}

bool Cgroups::kill(const std::string& name) const {
  bool found = false;
  for (const Base& base : bases_) {
    const std::string directory = path(base, name);
    if (::access(directory.c_str(), F_OK) != 0) continue;
    found = true;
    if (write_value(directory + "/cgroup.kill", "1")) return true;
    // Version 1: a later round kills what forked meanwhile, and the pids limit bounds it.
    for (int round = 0; round < 8; ++round) {
      const auto pids = processes_in(directory);
      if (pids.empty()) break;
      for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    }
  }
  return found;
}

// Reads "oom_kill N" from memory.events (version 2) or memory.oom_control.
bool Cgroups::ran_out_of_memory(const std::string& name) const {
  static constexpr std::string_view k_count = "oom_kill ";
  for (const Base& base : bases_) {
    for (const char* file : {"/memory.events", "/memory.oom_control"}) {
      const auto text = read_file(AT_FDCWD, path(base, name) + file, k_max_bytes);
      if (!text) continue;
      const std::size_t at = text->find(k_count);
      if (at != std::string::npos && text->at(at + k_count.size()) != '0') return true;
    }
  }
  return false;
}

bool Cgroups::remove(const std::string& name) const {
  bool gone = true;
  for (const Base& base : bases_) {
    if (::rmdir(path(base, name).c_str()) != 0 && errno != ENOENT) gone = false;
  }
  return gone;
}

std::vector<std::string> Cgroups::list() const {
  std::vector<std::string> names;
  for (const Base& base : bases_) {
    auto directory = DirectoryStream::at(AT_FDCWD, base.directory);
    while (const auto name = directory.next()) {
      if (name->starts_with(k_worker_cgroup))
        names.emplace_back(name->substr(k_worker_cgroup.size()));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace nodestage
