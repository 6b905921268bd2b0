#include "daemon/root/tasks/trash.hpp"

#include <utility>

#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_removers = 8;
constexpr int k_most_tries = 64;  // of one sweep: others want the loop, too
constexpr std::chrono::seconds k_pause_of_all{60};
constexpr std::chrono::seconds k_pause_of_one{2};
// Of a remover with the rights of its owner, who can stop it (SIGSTOP).
constexpr Workers::Limits k_owner_limits{.run = std::chrono::minutes(30),
                                         .idle = std::chrono::minutes(1)};

}  // namespace

void Trash::sweep() {
  for (TrashEntry& entry : areas_.take_new_trash()) await_turn(std::move(entry));
  std::erase_if(urgent_, [this](std::uint32_t uid) { return !areas_.has_trash_of(uid); });
  for (int i = 0; at_work_ < k_most_removers && !turns_.empty(); ++i) {
    if (i == k_most_tries) return sweep_later();
    const std::uint32_t uid = turns_.front();
    turns_.pop_front();
    std::deque<TrashEntry>& waiting = owners_.at(uid).waiting;
    TrashEntry entry = std::move(waiting.front());
    waiting.pop_front();
    remove(std::move(entry));
    take_turn(uid);
  }
}

void Trash::sweep_later() {
  if (std::exchange(is_sweeping_later_, true)) return;
  loop_.after({}, [this] {
    is_sweeping_later_ = false;
    sweep();
  });
}

void Trash::await_turn(TrashEntry entry) {
  Owner& owner = owners_[entry.uid];
  const std::uint32_t uid = entry.uid;
  owner.waiting.push_back(std::move(entry));
  if (owner.waiting.size() == 1) take_turn(uid);
}

// Called when its remover has ended, and when its first tree has come.
void Trash::take_turn(std::uint32_t uid) {
  const auto owner = owners_.find(uid);
  if (owner == owners_.end() || owner->second.is_at_work) return;
  if (owner->second.waiting.empty())
    owners_.erase(owner);
  else
    turns_.push_back(uid);
}

// A process of the owner's may have made new files there all the time, or the job has left a mount
// there, which its epilog detaches at this moment.
void Trash::give_up(const TrashEntry& entry, const std::string& why) {
  if (failed_.insert(entry.name).second) {
    loop_.after(k_pause_of_one, [this, entry] {
      await_turn(entry);
      sweep();
    });
    return;
  }
  if (logged_.insert(entry.name).second)
    log::error("trash {}: cannot be removed, and is tried again: {}", entry.name, why);
  given_up_.push_back(entry);
  if (std::exchange(is_pausing_, true)) return;
  loop_.after(k_pause_of_all, [this] {
    is_pausing_ = false;
    look_again();
  });
}

void Trash::look_again() {
  for (TrashEntry& again : std::exchange(given_up_, {})) await_turn(std::move(again));
  sweep();
}

// A user can have replaced a directory by a link.
void Trash::remove(TrashEntry entry) {
  if (const Status wrapped = areas_.wrap_trash(entry); !wrapped)
    return give_up(entry, wrapped.error().what);
  start(entry, entry.uid == 0 || entry.gid == 0 ? By::root : By::owner);
}

void Trash::start(const TrashEntry& entry, By by) {
  if (halting_.contains(entry.uid)) by = By::root;
  auto tree = areas_.open_trash(entry);
  if (!tree) {
    if (areas_.remove_trash(entry)) return is_gone(entry);
    return give_up(entry, tree.error().what);
  }
  WorkerStart start;
  start.program = config_.daemon.worker_path;
  start.cgroup = "remove-" + entry.name;
  start.groups = Groups::primary;
  start.directory_fd = tree->get();
  RemoveOrder order;
  order.uid = by == By::root ? 0 : entry.uid;
  order.gid = by == By::root ? 0 : entry.gid;
  order.is_urgent = urgent_.contains(entry.uid);
  start.order = order;
  const auto id =
      workers_.start(start, {1, config_.worker.memory_bytes, config_.worker.pids},
                     by == By::owner ? k_owner_limits : Workers::Limits{},
                     Subject{{}, entry.uid, "remover", "trash/" + entry.name},
                     [this, entry, by](const WorkerEnd& end) { removed(entry, by, end); });
  if (!id) return give_up(entry, id.error().what);
  owners_[entry.uid].is_at_work = true;
  ++at_work_;
}

void Trash::is_gone(const TrashEntry& entry) {
  failed_.erase(entry.name);
  logged_.erase(entry.name);
}

void Trash::removed(const TrashEntry& entry, By by, const WorkerEnd& end) {
  owners_[entry.uid].is_at_work = false;
  --at_work_;
  if (by == By::owner && end.kind == WorkerEnd::Kind::over_limit) halting_.insert(entry.uid);
  const Status gone = areas_.remove_trash(entry);
  if (!gone && by == By::owner && end.kind != WorkerEnd::Kind::stuck) {
    log::info(
        "trash {}: its owner could not remove all of it (remover {}); removing the rest as root",
        entry.name, end.text);
    start(entry, By::root);
  } else if (!gone) {
    give_up(entry, gone.error().what + " (remover " + end.text + ")");
  } else {
    is_gone(entry);
  }
  take_turn(entry.uid);
  sweep();
}

}  // namespace nodestage
