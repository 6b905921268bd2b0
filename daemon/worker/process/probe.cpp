#include "daemon/worker/process/probe.hpp"

#include <fcntl.h>

#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"
#include "daemon/worker/venv/builder.hpp"

namespace nodestage {
namespace {

int report(WorkerPhase phase, const std::string& cause) {
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(phase);
  set_field(header.cause, cause);
  static_cast<void>(write_status_header(k_worker_status_fd, header));
  return phase == WorkerPhase::done ? 0 : 1;
}

std::string both(const std::string& worker, const std::string& builder) {
  std::string text = worker;
  if (builder.empty() || builder == worker) return text;
  return text + (text.empty() ? "" : "; ") + "where environments are built: " + builder;
}

}  // namespace

int run_probe() {
  const auto builder = Builder::start(k_worker_directory_fd, 077);
  if (!builder) return report(WorkerPhase::failed, builder.error().text());
  std::vector<Fd> places;
  places.emplace_back(::fcntl(k_worker_directory_fd, F_DUPFD_CLOEXEC, 0));
  const Sandbox own = enter_sandbox(Profile::decode, Special::skip, places);
  const Sandbox& its = builder->sandbox();
  const std::string fault = both(own.fault, its.fault);
  return fault.empty() ? report(WorkerPhase::done, both(own.lacking, its.lacking))
                       : report(WorkerPhase::failed, fault);
}

}  // namespace nodestage
