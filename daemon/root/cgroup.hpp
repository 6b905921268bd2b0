// Cgroups: one cgroup per worker, below the daemon's own (systemd: Delegate=yes).
//
// Version 2 with delegated controllers, or version 1 (cpu, memory, pids, freezer), as the kernel
// and the daemon's own cgroup offer. Limits that the host cannot enforce are left out and named
// once by missing(). Needs root, or a delegated cgroup. Formats:
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/*.rst of the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct CgroupLimits {
  std::uint32_t cpus = 1;
  std::uint64_t memory_bytes = 0;  // 0: none
  std::uint64_t pids = 0;          // 0: none
};

class Cgroups {
 public:
  // Finds the daemon's own cgroup; with version 2 moves the daemon into a leaf `supervisor`, since
  // a cgroup with children may not hold processes. `proc` is /proc (a test passes another).
  static Result<Cgroups> discover(const std::string& proc = "/proc");
  // No cgroups: every call below does nothing.
  static Cgroups none() { return Cgroups(); }

  // Makes the cgroup `name` with its limits.
  Status create(const std::string& name, const CgroupLimits& limits) const;
  // Moves the calling process (a forked child, still root) into `name`. Async-signal-safe enough
  // for a single-threaded parent.
  Status enter(const std::string& name) const;
  // SIGKILL to all that is in `name`; false when there is no such cgroup here.
  [[nodiscard]] bool kill(const std::string& name) const;
  // Whether the kernel has killed a process in `name` for want of memory.
  [[nodiscard]] bool ran_out_of_memory(const std::string& name) const;
  // Removes `name`; false while something is still in it. True when it is not there.
  [[nodiscard]] bool remove(const std::string& name) const;
  // The names that exist, for the clean-up at start.
  [[nodiscard]] std::vector<std::string> list() const;

  [[nodiscard]] bool available() const { return !bases_.empty(); }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  enum class Kind { unified, cpu, memory, pids, freezer };
  struct Base {
    Kind kind;
    std::string directory;  // the daemon's own cgroup in that hierarchy
  };
  [[nodiscard]] std::string path(const Base& base, const std::string& name) const;
  static Status set_limits(const std::string& directory, const CgroupLimits& limits);

  std::vector<Base> bases_;
  std::string missing_;
};

}  // namespace nodestage
