#include "daemon/root/cache/comparisons.hpp"

#include <sys/mman.h>

#include <memory>

#include "common/wire/status_file.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_limit{3600};

// Returns what is wrong with a tree that was last changed at `before` when it was published.
std::string fault_in(const WorkerStatus& status, ChangeTime before, const WorkerEnd& end) {
  if (status.phase != WorkerPhase::done || status.items.empty())
    return "it could not be looked at: the process " + end.text;
  const auto newest = parse_change_time(field_text(status.items[0].name));
  if (!newest) return "it could not be looked at";
  return *newest > before ? "a process of its user has changed it" : "";
}

}  // namespace

void Comparisons::ask(const CacheEntry& entry) {
  turns_[entry.uid].waiting.insert(entry.name);
  go_on(entry.uid);
}

void Comparisons::go_on(std::uint32_t uid) {
  Turn& turn = turns_[uid];
  while (!turn.is_at_work && !turn.waiting.empty()) {
    const auto next = turn.waiting.extract(turn.waiting.begin());
    const CacheEntry* entry = find_(next.value());
    if (entry != nullptr) turn.is_at_work = start(*entry);
  }
  if (!turn.is_at_work) turns_.erase(uid);
}

bool Comparisons::start(const CacheEntry& entry) {
  const auto tree = area_.open_tree(entry);
  const auto status = std::make_shared<Fd>(::memfd_create("nodestage-compare", MFD_CLOEXEC));
  if (!tree || !*status) {
    on_result_(entry.name, entry.changed, "it could not be opened");
    return false;
  }
  WorkerStart start;
  start.program = config_.daemon.worker_path;
  start.cgroup = "compare-" + entry.directory;  // which other users can list
  start.groups = Groups::primary;
  start.directory_fd = tree->get();
  start.status_fd = status->get();
  CompareOrder order;
  order.uid = entry.uid;
  order.gid = entry.gid;
  start.order = order;
  const auto id =
      workers_.start(start, {1, config_.worker.memory_bytes, config_.worker.pids}, {.run = k_limit},
                     Subject{{}, entry.uid, "compare", entry.name},
                     [this, name = entry.name, uid = entry.uid, before = entry.changed, status](
                         const WorkerEnd& end) { ended(name, uid, before, status->get(), end); });
  if (!id) on_result_(entry.name, entry.changed, "it could not be looked at: " + id.error().what);
  return static_cast<bool>(id);
}

void Comparisons::ended(const std::string& name, std::uint32_t uid, ChangeTime before,
                        int status_fd, const WorkerEnd& end) {
  const auto status = read_worker_status(status_fd);
  turns_[uid].is_at_work = false;
  on_result_(name, before, fault_in(status ? *status : WorkerStatus{}, before, end));
  go_on(uid);
}

}  // namespace nodestage
