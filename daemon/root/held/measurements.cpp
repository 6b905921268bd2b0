#include "daemon/root/held/measurements.hpp"

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/held/hold.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_limit{600};
constexpr std::uint64_t k_first_pause_s = 60;
constexpr std::uint64_t k_most_pause_s = 3600;
constexpr std::uint64_t k_again_s = 3600;

}  // namespace

void Measurements::ask(const JobRecord& record) {
  const JobKey key = record.key();
  if (is_running(key)) return;
  if (const auto tries = tries_.find(key); tries != tries_.end()) tries->second.due.reset();
  turns_.ask(record.begin.uid, key, [this, key] { return start(key); });
}

void Measurements::expect(const JobKey& key) {
  if (!is_running(key)) tries_.try_emplace(key, Tries{0, 0, loop_.wall_s() + k_again_s});
}

bool Measurements::is_running(const JobKey& key) const {
  return workers_.is_working(key, WorkerTask::measure);
}

std::optional<std::uint64_t> Measurements::due(const JobKey& key) const {
  const auto tries = tries_.find(key);
  return tries == tries_.end() ? std::nullopt : tries->second.due;
}

bool Measurements::is_late(const JobKey& key) const {
  const auto found = tries_.find(key);
  if (found == tries_.end()) return false;
  const Tries& tries = found->second;
  return tries.failed > 0 || (tries.since != 0 && loop_.wall_s() >= tries.since + k_first_pause_s);
}

Turns::Begun Measurements::start(const JobKey& key) {
  JobRecord* record = table_.find(key);
  if (record == nullptr || record->hold.since == 0 || record->state == JobState::gone ||
      is_leaving_(key))
    return Turns::Begun::no;
  const auto tree = files_.directory(*record);
  if (!tree) return Turns::Begun::no;
  WorkerStart order = workers_.order(*record, WorkerTask::measure);
  order.directory_fd = tree->get();
  JobWorkers::Bounds bounds = workers_.bounds(*record, WorkerTask::measure);
  bounds.resources.cpus = 1;
  bounds.limits.run = k_limit;
  const Status started =
      workers_.start(*record, order, bounds,
                     [this, uid = record->begin.uid](const JobKey& ended, const WorkerEnd& end) {
                       measured(ended, uid, end);
                     });
  Tries& tries = tries_[key];
  if (tries.since == 0) tries.since = loop_.wall_s();
  if (started) return Turns::Begun::yes;
  log::error(about(*record), "cannot be measured: {}", started.error().what);
  try_later(key);
  return Turns::Begun::failed;
}

void Measurements::measured(const JobKey& key, std::uint32_t uid, const WorkerEnd& end) {
  turns_.end(uid, key);
  JobRecord* record = table_.find(key);
  if (record == nullptr) return;
  const WorkerStatus status = files_.status(key, WorkerTask::measure);
  if (status.phase != WorkerPhase::done || status.items.empty()) {
    log::warn(about(*record), "cannot be measured: the process {}", end.text);
    record->hold.is_measured = false;
    table_.save(*record);
    return try_later(key);
  }
  tries_[key] = Tries{0, 0, loop_.wall_s() + k_again_s};
  on_end_(key);
  note(*record, status.items[0]);
}

void Measurements::note(JobRecord& record, const ItemRecord& measured) {
  HoldRecord& hold = record.hold;
  if (hold.is_measured && hold.bytes == measured.bytes_total && hold.inodes == measured.files)
    return;
  hold.bytes = measured.bytes_total;
  hold.inodes = measured.files;
  hold.is_measured = true;
  log::info(about(record), "{} are held, in {} files and directories", human_bytes(hold.bytes),
            human_count(hold.inodes));
  table_.save(record);
}

void Measurements::try_later(const JobKey& key) {
  Tries& tries = tries_[key];
  tries.due = loop_.wall_s() + retry_delay_s(++tries.failed, k_first_pause_s, k_most_pause_s);
  on_end_(key);
}

}  // namespace nodestage
