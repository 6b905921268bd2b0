#include "daemon/root/tasks/trash.hpp"

#include <algorithm>
#include <utility>

#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_removers = 8;
constexpr std::chrono::seconds k_pause{60};
constexpr std::chrono::seconds k_first_pause{2};
// Of a remover with the rights of its owner, who can stop it (SIGSTOP).
constexpr Workers::Limits k_owner_limits{.run = std::chrono::minutes(30),
                                         .idle = std::chrono::minutes(1)};

}  // namespace

void Trash::sweep() {
  const auto entries = areas_.list_trash();
  std::erase_if(urgent_, [&entries](std::uint32_t uid) {
    return std::none_of(entries.begin(), entries.end(),
                        [uid](const TrashEntry& entry) { return entry.uid == uid; });
  });
  for (const TrashEntry& entry : entries) {
    if (at_work_.size() >= k_most_removers) return;
    if (given_up_.count(entry.name) > 0 || at_work_.count(entry.uid) > 0) continue;
    remove(entry, entry.uid == 0 || entry.gid == 0 ? By::root : By::owner);
  }
}

// A process of the owner's may have made new files there all the time, or the job has left a mount
// there, which its epilog detaches at this moment.
void Trash::give_up(const TrashEntry& entry, const std::string& why) {
  given_up_.insert(entry.name);
  if (failed_.insert(entry.name).second) {
    loop_.after(k_first_pause, [this, name = entry.name] {
      given_up_.erase(name);
      sweep();
    });
    return;
  }
  if (told_.insert(entry.name).second)
    log::error("trash {}: cannot be removed, and is tried again: {}", entry.name, why);
  if (std::exchange(is_pausing_, true)) return;
  loop_.after(k_pause, [this] {
    is_pausing_ = false;
    given_up_.clear();
    sweep();
  });
}

void Trash::look_again() {
  if (given_up_.empty()) return;
  given_up_.clear();
  sweep();
}

std::size_t Trash::stuck() const {
  const auto entries = areas_.list_trash();
  return static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(),
                    [this](const TrashEntry& entry) { return told_.contains(entry.name); }));
}

void Trash::remove(const TrashEntry& entry, By by) {
  if (halting_.contains(entry.uid)) by = By::root;
  auto tree = areas_.open_trash(entry.name);
  if (!tree) {
    if (areas_.remove_trash(entry.name))
      return;  // a file or a link, by which the user has replaced the directory
    return give_up(entry, tree.error().what);
  }
  WorkerStart start;
  start.program = config_.daemon.worker_path;
  start.cgroup = "remove-" + entry.name;
  start.groups = Groups::primary;
  start.directory_fd = tree->get();
  start.order.task = WorkerTask::remove;
  start.order.uid = by == By::root ? 0 : entry.uid;
  start.order.gid = by == By::root ? 0 : entry.gid;
  start.order.is_urgent = urgent_.contains(entry.uid);
  const auto id =
      workers_.start(start, {1, config_.worker.memory_bytes, config_.worker.pids},
                     by == By::owner ? k_owner_limits : Workers::Limits{},
                     Subject{{}, entry.uid, "remover", "trash/" + entry.name},
                     [this, entry, by](const WorkerEnd& end) { removed(entry, by, end); });
  if (id) {
    at_work_.insert(entry.uid);
  } else {
    give_up(entry, id.error().what);
  }
}

void Trash::removed(const TrashEntry& entry, By by, const WorkerEnd& end) {
  at_work_.erase(entry.uid);
  if (by == By::owner && end.kind == WorkerEnd::Kind::over_limit) halting_.insert(entry.uid);
  const Status gone = areas_.remove_trash(entry.name);
  if (!gone && by == By::owner && end.kind != WorkerEnd::Kind::stuck) {
    log::info(
        "trash {}: its owner could not remove all of it (remover {}); removing the rest as root",
        entry.name, end.text);
    remove(entry, By::root);
  } else if (!gone) {
    give_up(entry, gone.error().what + " (remover " + end.text + ")");
  } else {
    failed_.erase(entry.name);
    told_.erase(entry.name);
  }
  sweep();
}

}  // namespace nodestage
