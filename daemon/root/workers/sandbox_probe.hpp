// SandboxProbe: finds out whether workers can confine themselves on this node. A worker tries just
// that (daemon/worker/process/probe.hpp), once at the daemon's start, as the user "nobody".
#pragma once

#include <functional>
#include <string>

#include "common/settings/config.hpp"
#include "common/wire/daemon_about.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class SandboxProbe {
 public:
  // Called once, from the loop, with the result.
  using OnFound = std::function<void(const SandboxState&)>;

  SandboxProbe(Workers& workers, const Config& config) : workers_(workers), config_(config) {}

  // Starts the probe in `directory`, any that exists. Logs the result, or why there is none.
  void start(const std::string& directory, const OnFound& on_found);

 private:
  void found(const Fd& status, const WorkerEnd& end, const OnFound& on_found) const;

  Workers& workers_;
  const Config& config_;
};

}  // namespace nodestage
