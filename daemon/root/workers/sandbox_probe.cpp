#include "daemon/root/workers/sandbox_probe.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <memory>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::uint32_t k_nobody = 65534;
constexpr std::chrono::seconds k_limit{60};

SandboxState state_of(const WorkerStatus& status, const WorkerEnd& end) {
  const std::string text = printable(status.cause, Newlines::join);
  if (status.phase == WorkerPhase::done)
    return {text.empty() ? SandboxState::Kind::holds : SandboxState::Kind::lacking, text};
  if (status.phase == WorkerPhase::failed) return {SandboxState::Kind::fault, text};
  return {SandboxState::Kind::fault, "the process that tried it " + end.text};
}

void log_state(const SandboxState& state, SandboxNeed need) {
  const char* required = need == SandboxNeed::required
                             ? "; worker.sandbox requires it: jobs that stage fail on this node"
                             : "";
  switch (state.kind) {
    case SandboxState::Kind::unknown:
    case SandboxState::Kind::holds:
      return log::info("workers can confine themselves");
    case SandboxState::Kind::lacking:
      return log::warn("this kernel does not confine workers in full: {}{}", state.text, required);
    case SandboxState::Kind::fault:
      return log::error("workers cannot enter their sandbox: {}{}", state.text, required);
  }
}

}  // namespace

void SandboxProbe::start(const std::string& directory, const OnFound& on_found) {
  const auto status = std::make_shared<Fd>(::memfd_create("probe", MFD_CLOEXEC));
  const auto place = open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY);
  WorkerStart start;
  start.program = config_.daemon.worker_path;
  start.cgroup = "probe";
  start.groups = Groups::primary;
  start.status_fd = status->get();
  start.directory_fd = place ? place->get() : -1;
  ProbeOrder order;
  order.uid = order.gid = k_nobody;
  start.order = order;
  Workers::Limits limits;
  limits.run = k_limit;
  const auto begun = workers_.start(
      start, {1, config_.worker.memory_bytes, config_.worker.pids}, limits,
      Subject{{}, {}, "worker", "sandbox"},
      [this, status, on_found](const WorkerEnd& end) { found(*status, end, on_found); });
  if (!begun)
    log::error("the test whether workers can confine themselves could not start: {}",
               begun.error().what);
}

void SandboxProbe::found(const Fd& status, const WorkerEnd& end, const OnFound& on_found) const {
  const auto reported = read_worker_status(status.get());
  const SandboxState state = state_of(reported ? *reported : WorkerStatus{}, end);
  log_state(state, config_.worker.sandbox);
  on_found(state);
}

}  // namespace nodestage
