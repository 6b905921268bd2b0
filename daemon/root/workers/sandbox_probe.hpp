// SandboxProbe: whether workers can confine themselves on this node, found out once at the daemon's
// start by a worker that does just that (daemon/worker/probe.hpp), as the user "nobody".
#pragma once

#include <functional>
#include <string>

#include "common/wire/daemon_about.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class SandboxProbe {
 public:
  // What has come out of it, once, from the loop.
  using OnFound = std::function<void(const SandboxState&)>;

  SandboxProbe(Workers& workers, const Config& config) : workers_(workers), config_(config) {}

  // `directory`: any that is there. Logs what is found, or why nothing can be.
  void start(const std::string& directory, const OnFound& on_found);

 private:
  void found(const Fd& status, const WorkerEnd& end, const OnFound& on_found) const;

  Workers& workers_;
  const Config& config_;
};

}  // namespace nodestage
