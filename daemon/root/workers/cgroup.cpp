#include "daemon/root/workers/cgroup.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/parsing.hpp"
#include "daemon/root/basis/service_manager.hpp"
#include "daemon/root/basis/textfile.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 1 << 20;
constexpr std::uint64_t k_period_us = 100'000;

Status write_value(const std::string& file, const std::string& value) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, file, O_WRONLY));
  const Status written = write_all(fd.get(), value);
  return written ? Status() : system_error(file, written.error().code);
}

std::vector<pid_t> processes_in(const std::string& directory) {
  std::vector<pid_t> pids;
  const auto text = read_file(AT_FDCWD, directory + "/cgroup.procs", k_max_bytes);
  if (!text) return pids;
  std::istringstream numbers(*text);
  for (pid_t pid = 0; numbers >> pid;) pids.push_back(pid);
  return pids;
}

// Users list nothing there, or each of them could hold up the daemon (make_missing_directory()).
constexpr mode_t k_unlisted = 0711;
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
  TRY(make_missing_directory(AT_FDCWD, leaf, 0755));
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
    // No other one, such as that of a session in which the daemon was started by hand.
    const std::string_view unit =
        std::string_view(base.directory).substr(base.directory.rfind('/') + 1);
    if (unit.starts_with("nodestage") && unit.ends_with(".service"))
      static_cast<void>(::chmod(base.directory.c_str(), k_unlisted));
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
    TRY(make_missing_directory(AT_FDCWD, directory, k_unlisted));
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

bool Cgroups::ran_out_of_memory(const std::string& name) const {
  return std::any_of(bases_.begin(), bases_.end(),
                     [&](const Base& base) { return out_of_memory_kills(path(base, name)) > 0; });
}

bool Cgroups::remove(const std::string& name) const {
  bool gone = true;
  for (const Base& base : bases_)
    if (::rmdir(path(base, name).c_str()) != 0 && errno != ENOENT) gone = false;
  return gone;
}

std::set<std::string> Cgroups::list() const {
  std::set<std::string> names;
  for (const Base& base : bases_) {
    auto directory = DirectoryStream::at(AT_FDCWD, base.directory);
    while (const auto name = directory.next())
      if (name->starts_with(k_worker_cgroup)) names.emplace(name->substr(k_worker_cgroup.size()));
  }
  return names;
}

Status keep_cgroup(const std::string& file) {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGTERM, SIGINT}) ::sigaddset(&ends, signal);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  ::prctl(PR_SET_NAME, "nodestage-cgrp");
  TRY_ASSIGN(const std::string cgroup, Cgroups::hand_on());
  TRY(replace_textfile(file, cgroup));
  notify_service_manager("READY=1");
  int signal = 0;
  ::sigwait(&ends, &signal);
  ::unlink(file.c_str());
  return {};
}

namespace {

// Users have cgroups of their own (systemd), below which they can make some of any name.
bool belongs_to(const std::string& directory, std::uint32_t owner) {
  struct stat info {};
  return ::lstat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == owner;
}

// What joins another step's than these would be killed at the end of that step: on version 2, where
// a process has one cgroup, it is one of the step's (on version 1, its memory alone is).
int rank_of(std::string_view cgroup, CgroupVersion version) {
  if (cgroup.find("/step_extern") != std::string_view::npos) return 3;
  if (cgroup.find("/step_batch") != std::string_view::npos) return 2;
  return version == CgroupVersion::one ? 1 : 0;
}

// Without the files of the kernel, nearly all of which have a dot in their names.
std::vector<std::string> directories_in(const std::string& directory) {
  std::vector<std::string> names;
  auto stream = DirectoryStream::at(AT_FDCWD, directory);
  while (const auto name = stream.next()) {
    const bool is_plain = name->find('.') == std::string_view::npos;
    if (is_plain || name->ends_with(".slice") || name->ends_with(".scope"))
      names.emplace_back(*name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool has_process(const std::string& directory) {
  const auto file = open_at(AT_FDCWD, directory + "/cgroup.procs", O_RDONLY);
  char first = 0;
  return file && ::read(file->get(), &first, 1) == 1;
}

// The cgroup there or below in which a process is, `depth` levels down at most; "": none.
std::string occupied(const std::string& directory, int depth) {
  if (has_process(directory)) return directory;
  if (depth == 0) return {};
  for (const std::string& name : directories_in(directory)) {
    std::string found = occupied(directory + "/" + name, depth - 1);
    if (!found.empty()) return found;
  }
  return {};
}

// Where Slurm's cgroups of jobs are: those of version 1 at the top, those of version 2 in the scope
// of slurmstepd, at the top or in a slice, which may be in a container's.
void add_places(const std::string& directory, CgroupVersion version, int depth,
                std::vector<std::string>& places) {
  for (const std::string& name : directories_in(directory)) {
    const bool is_place = version == CgroupVersion::one ? name.starts_with("slurm")
                                                        : name.ends_with("slurmstepd.scope");
    if (is_place) places.push_back(directory + "/" + name);
    const bool is_wider = version == CgroupVersion::two && depth > 0 && name != "user.slice";
    if (!is_place && is_wider) add_places(directory + "/" + name, version, depth - 1, places);
  }
}

std::string cgroup_of_job(const std::string& own, CgroupVersion version) {
  std::string best;
  int best_rank = 0;
  for (const std::string& name : directories_in(own)) {
    if (!name.starts_with("step_")) continue;
    const std::string step = own + "/" + name;
    const int rank = rank_of("/" + name, version);
    if (rank <= best_rank) continue;
    // On version 2, the step's own process is where no other may be.
    std::string found = occupied(version == CgroupVersion::two ? step + "/user" : step, 2);
    if (found.empty()) continue;
    best = std::move(found);
    best_rank = rank;
  }
  return best;
}

}  // namespace

JobCgroups find_job_cgroups(const std::set<JobOfUser>& jobs, const std::string& proc,
                            std::uint32_t owner) {
  constexpr int k_slices = 3;
  JobCgroups found;
  const auto mounts =
      jobs.empty() ? Result(std::map<std::string, CgroupMount>()) : cgroup_mounts(proc);
  if (!mounts || mounts->empty()) return found;
  const auto memory = mounts->find("memory");
  const CgroupVersion version = memory == mounts->end() ? CgroupVersion::two : CgroupVersion::one;
  const auto mount = version == CgroupVersion::one ? memory : mounts->find("");
  if (mount == mounts->end()) return found;
  std::vector<std::string> places;
  add_places(mount->second.point, version, k_slices, places);
  for (const JobOfUser& job : jobs) {
    for (const std::string& place : places) {
      const std::string around =
          version == CgroupVersion::one ? place + "/uid_" + std::to_string(job.uid) : place;
      const std::string own = around + "/job_" + std::to_string(job.job);
      if (!belongs_to(own, owner)) continue;
      std::string cgroup = cgroup_of_job(own, version);
      if (!cgroup.empty()) found[job] = std::move(cgroup);
    }
  }
  return found;
}

bool is_of_version_two(const std::string& directory) {
  struct stat info {};
  return !directory.empty() && ::stat((directory + "/cgroup.controllers").c_str(), &info) == 0;
}

Status enter_job_cgroup(const std::string& directory) {
  return write_value(directory + "/cgroup.procs", "0");
}

void remove_job_cgroup(std::string directory) {
  while (directory.find("/job_") != std::string::npos) {
    if (::rmdir(directory.c_str()) != 0 && errno != ENOENT) return;
    directory.erase(directory.rfind('/'));
  }
}

// Reads "oom_kill N" from memory.events (version 2) or memory.oom_control.
std::uint64_t out_of_memory_kills(const std::string& directory) {
  static constexpr std::string_view k_count = "oom_kill ";
  for (const char* file : {"/memory.events", "/memory.oom_control"}) {
    const auto text = read_file(AT_FDCWD, directory + file, k_max_bytes);
    const std::size_t at = text ? text->find(k_count) : std::string::npos;
    if (at == std::string::npos) continue;
    std::string_view rest = std::string_view(*text).substr(at + k_count.size());
    return take_number<std::uint64_t>(rest).value_or(0);
  }
  return 0;
}

}  // namespace nodestage
