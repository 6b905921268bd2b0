#include "daemon/worker/stage/stage_report.hpp"

#include <cstring>

#include "daemon/worker/basis/log.hpp"

namespace nodestage {
namespace {

void check(const Status& status) {
  if (!status) log_line(status.error().text());
}

}  // namespace

void StageReport::set_environment(const std::vector<std::string>& environment) {
  check(write_status_environment(k_worker_status_fd, environment));
  std::size_t bytes = 0;
  for (const auto& variable : environment) bytes += variable.size() + 1;
  header_.environment_bytes = static_cast<std::uint32_t>(bytes);
}

void StageReport::write(WorkerPhase phase, const StagedItems& items) {
  written_.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ItemRecord record = items[i]->record();
    if (std::memcmp(&record, &written_[i], sizeof record) == 0) continue;
    written_[i] = record;
    check(write_status_item(k_worker_status_fd, i, record));
  }
  header_.items = static_cast<std::uint32_t>(items.size());
  header_.phase = static_cast<std::uint32_t>(phase);
  check(write_status_header(k_worker_status_fd, header_));
}

int StageReport::fail(const std::string& cause, const StagedItems& items) {
  set_field(header_.cause, cause);
  write(WorkerPhase::failed, items);
  log_line("failed: " + cause);
  return 1;
}

}  // namespace nodestage
