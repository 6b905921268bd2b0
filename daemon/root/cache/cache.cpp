#include "daemon/root/cache/cache.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include <algorithm>
#include <memory>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_removal_limit{3600};

// Returns what is wrong with a tree that was last changed at `before` when it was published.
std::string fault_in(const WorkerStatus& status, ChangeTime before, const WorkerEnd& end) {
  if (status.phase != WorkerPhase::done || status.items.empty())
    return "it could not be looked at: the process " + end.text;
  const auto newest = parse_change_time(field_text(status.items[0].name));
  if (!newest) return "it could not be looked at";
  return *newest > before ? "a process of its user has changed it" : "";
}

}  // namespace

void Cache::compare(const CacheEntry& entry) {
  comparisons_[entry.uid].waiting.insert(entry.name);
  compare_next(entry.uid);
}

void Cache::compare_next(std::uint32_t uid) {
  Comparisons& of_user = comparisons_[uid];
  while (!of_user.is_at_work && !of_user.waiting.empty()) {
    const auto next = of_user.waiting.extract(of_user.waiting.begin());
    const CacheEntry* entry = find(next.value());
    if (entry != nullptr) of_user.is_at_work = start_comparison(*entry);
  }
  if (!of_user.is_at_work) comparisons_.erase(uid);
}

bool Cache::start_comparison(const CacheEntry& entry) {
  const auto tree = area_.open_tree(entry);
  const auto status = std::make_shared<Fd>(::memfd_create("nodestage-compare", MFD_CLOEXEC));
  if (!tree || !*status) {
    compared(entry.name, entry.changed, "it could not be opened");
    return false;
  }
  WorkerStart start;
  start.program = deps_.config.daemon.worker_path;
  start.cgroup = "compare-" + entry.directory;  // which other users can list
  start.groups = Groups::primary;
  start.directory_fd = tree->get();
  start.status_fd = status->get();
  CompareOrder order;
  order.uid = entry.uid;
  order.gid = entry.gid;
  start.order = order;
  const auto id = deps_.workers.start(
      start, {1, deps_.config.worker.memory_bytes, deps_.config.worker.pids},
      {.run = k_removal_limit}, Subject{{}, entry.uid, "compare", entry.name},
      [this, name = entry.name, uid = entry.uid, before = entry.changed,
       status](const WorkerEnd& end) { comparison_ended(name, uid, before, status->get(), end); });
  if (!id) compared(entry.name, entry.changed, "it could not be looked at: " + id.error().what);
  return static_cast<bool>(id);
}

void Cache::comparison_ended(const std::string& name, std::uint32_t uid, ChangeTime before,
                             int status_fd, const WorkerEnd& end) {
  const auto status = read_worker_status(status_fd);
  comparisons_[uid].is_at_work = false;
  compared(name, before, fault_in(status ? *status : WorkerStatus{}, before, end));
  compare_next(uid);
}

namespace {

constexpr std::chrono::seconds k_sweep_interval{1};
constexpr std::chrono::milliseconds k_longest_tick{50};
constexpr std::size_t k_most_of_one_user = 1000;
constexpr std::chrono::seconds k_patience{30};  // with what is removed and may not get done

Subject about(const CacheEntry& entry) { return {{}, entry.uid, "daemon", entry.source}; }

std::uint64_t added(std::uint64_t a, std::uint64_t b) { return a + std::min(b, UINT64_MAX - a); }

// Who has caused it. What is kept for all belongs to the keeper.
std::uint32_t charged_to(const CacheEntry& entry) {
  return entry.for_readers ? entry.made_for : entry.uid;
}

// Each file can fill its last block with one byte, and be in a directory of its own.
Amount most_of(const CacheEntry& entry) {
  constexpr std::uint64_t k_block = 4096;
  const std::uint64_t inodes = added(entry.files, added(entry.files, 1));
  const std::uint64_t blocks = inodes < k_no_limit / k_block ? inodes * k_block : k_no_limit;
  return {added(entry.bytes, blocks), inodes};
}

}  // namespace

void Cache::load() {
  settings_changed();
  if (!deps_.areas.cache_fault().empty())
    log::error("nothing is kept for further jobs: {}", deps_.areas.cache_fault());
  for (CacheEntry& entry : area_.load()) add(std::move(entry));
}

// The last daemon may have been killed before the last user's end was dealt with.
void Cache::loaded() {
  std::vector<std::string> names;
  for (const auto& [name, kept] : entries_) {
    // It may have let in users whose jobs have ended.
    if (kept.entry.for_readers && !let_in(kept)) log::error(about(kept.entry), "cannot be closed");
    if (kept.users.empty()) names.push_back(name);
  }
  for (const std::string& name : names) unused(name);
}

void Cache::settings_changed() {
  const bool is_on = deps_.config.cache.enabled && deps_.areas.cache_fault().empty();
  refusal_ = is_on ? "" : "this node keeps no shared data";
  if (deps_.boot.empty()) refusal_ = "this node's kernel has no boot id";
  find_keeper();
  look_after();
}

void Cache::find_keeper() {
  keeper_.reset();
  if (deps_.config.cache.scope == ShareScope::user || !refusal_.empty()) return;
  const std::string& name = deps_.config.cache.keeper;
  const auto user = local_user(name);
  if (!user || user->uid == 0 || user->gid == 0)
    return log::error(
        "cache.scope is \"readers\", but /etc/passwd has no user '{}' (cache.keeper) other than "
        "root: what is kept is for one user each",
        name);
  const auto peer = local_user(deps_.config.peer.user);
  if (peer && peer->uid == user->uid)
    return log::error(
        "cache.keeper and peer.user are the same user: what is kept is for one user "
        "each");
  keeper_ = user;
}

// No group and nobody else gets in, so an ACL that is too long or cannot be made keeps users out.
Status Cache::let_in(const Kept& kept) {
  std::set<std::uint32_t> uids;
  for (const auto& [job, uid] : kept.users) uids.insert(uid);
  return area_.let_in(kept.entry, uids);
}

void Cache::add(CacheEntry entry) {
  const std::string name = entry.name;
  const auto settled_by = deps_.loop.now() + k_longest_tick;
  entries_.insert_or_assign(name, Kept{std::move(entry), {}, 0, {}, false, settled_by});
  look_after();
}

const CacheEntry* Cache::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() || !found->second.fault.empty() ? nullptr : &found->second.entry;
}

bool Cache::is_on_device_of(int fd) const {
  struct stat there {};
  struct stat here {};
  return ::fstat(fd, &there) == 0 && ::fstat(deps_.areas.cache_fd(), &here) == 0 &&
         there.st_dev == here.st_dev;
}

bool Cache::is_on_its_disk(int directory_fd) const {
  return is_on_device_of(directory_fd) && !deps_.areas.is_mount(directory_fd);
}

Status Cache::reserve(CacheEntry& entry) {
  if (!refusal_.empty()) return Error{EPERM, refusal_};
  const auto found = entries_.find(entry.name);
  if (found != entries_.end() && found->second.is_dropped) evict(found, "nodestage cache --drop");
  if (entries_.contains(entry.name)) return Error{EBUSY, "what was kept has been changed by a job"};
  const auto is_of_user = [&entry](const CacheEntry& other) {
    return charged_to(other) == charged_to(entry);
  };
  const auto count = std::count_if(entries_.begin(), entries_.end(),
                                   [&](const auto& kept) { return is_of_user(kept.second.entry); });
  if (static_cast<std::size_t>(count) >= k_most_of_one_user) {
    const auto next = next_to_go(is_of_user);
    if (next == entries_.end() || !evict(next, "its user has too many"))
      return Error{EUSERS, "too many shared items of its user are in use"};
  }
  TRY_ASSIGN(entry.directory, new_entry_directory(entry.uid));
  return area_.reserve(entry);
}

Status Cache::publish(CacheEntry entry, std::uint32_t uid, int job_fd,
                      const std::string& destination) {
  const JobKey job = entry.made_by;
  const CacheEntry* known = find(entry.name);
  const bool is_done = known != nullptr && known->made_by == job;
  if (!is_done) {
    if (entries_.contains(entry.name)) return Error{EEXIST, "it is there already"};
    TRY(area_.publish(entry, job_fd, destination));
    log::info(about(entry), "kept for further jobs: {} in {} files, as {}",
              human_bytes(entry.bytes), entry.files, entry.name);
  }
  const std::string name = entry.name;
  if (!is_done) add(std::move(entry));
  return use(name, job, uid);
}

// Times of files are those of the kernel's last tick: what is changed within the tick of the
// publication looks unchanged. The clock can be set back.
bool Cache::is_settled(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || deps_.loop.now() >= found->second.settled_by) return true;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return ChangeTime{now.tv_sec, static_cast<std::uint32_t>(now.tv_nsec)} >
         found->second.entry.changed;
}

Status Cache::use(const std::string& name, const JobKey& job, std::uint32_t uid) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.users.emplace(job, uid).second) return {};
  Kept& kept = found->second;
  Status entered = kept.entry.for_readers ? let_in(kept) : Status();
  if (!entered) {
    log::error(about(kept.entry), "cannot be opened for uid {}: {}", uid, entered.error().what);
    kept.users.erase(job);
    return entered;
  }
  kept.entry.used_at = deps_.loop.wall_s();
  area_.touch(kept.entry);
  return {};
}

void Cache::hit(const std::string& name, std::uint32_t uid) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  if (found->second.entry.for_readers && found->second.entry.made_for != uid)
    ++deps_.counters.cache.hits_of_others;
  ++found->second.hits;
  ++deps_.counters.cache.hits;
  deps_.counters.cache.bytes_not_read =
      added(deps_.counters.cache.bytes_not_read, found->second.entry.source_bytes);
}

void Cache::release(const JobKey& job) {
  std::vector<std::string> left;
  for (auto& [name, kept] : entries_) {
    if (kept.users.erase(job) == 0) continue;
    kept.entry.used_at = deps_.loop.wall_s();
    if (kept.entry.for_readers && !let_in(kept))
      log::error(about(kept.entry), "cannot be closed for a user whose job has ended");
    area_.touch(kept.entry);
    if (kept.users.empty()) left.push_back(name);
  }
  for (const std::string& name : left) unused(name);
}

// Compares the tree with what was published, since its last user has gone.
void Cache::unused(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  const Kept& kept = found->second;
  if (kept.fault.empty() && kept.entry.changed != ChangeTime{}) {
    compare(kept.entry);
    return;
  }
  evict(found, kept.fault.empty() ? "the disk had no room for its record" : "it was changed");
}

// It may have been removed meanwhile, and made again.
void Cache::compared(const std::string& name, ChangeTime before, const std::string& fault) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.entry.changed != before || fault.empty()) return;
  found->second.fault = fault;
  log::warn(about(found->second.entry), "what is kept for further jobs as {} is not used again: {}",
            name, fault);
  if (found->second.users.empty()) evict(found, "it was changed");
}

// A mount of its user's can be in the way.
bool Cache::evict(Entries::iterator kept, const char* why, Haste haste) {
  const CacheEntry entry = kept->second.entry;
  if (const Status gone = area_.discard(entry); !gone) {
    if (!kept->second.is_stuck)
      log::error(about(entry), "cannot be removed from the cache, and is tried again: {}",
                 gone.error().what);
    kept->second.is_stuck = true;
    kept->second.fault = "it cannot be removed, and is tried again: " + gone.error().what;
    return false;
  }
  entries_.erase(kept);
  ++deps_.counters.cache.evictions;
  log::info(about(entry), "no longer kept for further jobs: {} ({})", entry.name, why);
  if (haste == Haste::needed) deps_.trash.hurry(entry.uid);
  deps_.trash.sweep();
  return true;
}

// Returns the least recently used entry of the users with more than an equal share.
Cache::Entries::iterator Cache::next_to_go(const Which& which) {
  std::map<std::uint32_t, std::uint64_t> by_user;
  std::uint64_t all = 0;
  for (const auto& [name, kept] : entries_) {
    std::uint64_t& of_user = by_user[charged_to(kept.entry)];
    of_user = added(of_user, kept.entry.bytes);
    all = added(all, kept.entry.bytes);
  }
  const std::uint64_t share = by_user.empty() ? 0 : all / by_user.size();
  auto best = entries_.end();
  bool best_has_more = false;
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    const CacheEntry& entry = at->second.entry;
    if (!can_go(at->second) || (which && !which(entry))) continue;
    const bool has_more = by_user[charged_to(entry)] >= share;
    const bool is_first = best == entries_.end() || (has_more && !best_has_more) ||
                          (has_more == best_has_more && entry.used_at < best->second.entry.used_at);
    if (!is_first) continue;
    best = at;
    best_has_more = has_more;
  }
  return best;
}

Amount Cache::unused_on(int disk_fd) const {
  const bool is_here = is_on_device_of(disk_fd);
  Amount sum;
  for (const auto& [name, kept] : entries_)
    if (is_here && can_go(kept)) sum = sum + most_of(kept.entry);
  return sum;
}

bool Cache::make_room() {
  for (auto next = next_to_go({}); next != entries_.end(); next = next_to_go({}))
    if (evict(next, "its space is needed", Haste::needed)) return true;
  return false;
}

bool Cache::make_room_of(std::uint32_t uid) {
  bool any = false;
  const auto is_in_quota = [uid](const CacheEntry& entry) { return entry.uid == uid; };
  for (auto next = next_to_go(is_in_quota); next != entries_.end(); next = next_to_go(is_in_quota))
    any = evict(next, "its user's quota is needed", Haste::needed) || any;
  return any;
}

// While there is an entry, the disk is looked at: a job that runs can fill it.
void Cache::look_after() {
  if (timer_ || entries_.empty()) return;
  timer_ = deps_.loop.after(k_sweep_interval, [this] {
    timer_.reset();
    look();
    look_after();
  });
}

// One at a time: what it frees is seen when the trash is empty. A user can delay that.
void Cache::look() {
  const std::uint64_t now = deps_.loop.wall_s();
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto next = std::next(at);
    const Kept& kept = at->second;
    if (kept.users.empty() && kept.is_stuck)
      evict(at, "it could not be removed before");
    else if (kept.users.empty() && !deps_.config.cache.enabled)
      evict(at, "cache.enabled");
    else if (kept.users.empty() && kept.entry.for_readers && !keeper_)
      evict(at, "cache.scope");
    else if (kept.users.empty() && kept.entry.used_at + deps_.config.cache.max_age_s < now)
      evict(at, "cache.max_age");
    at = next;
  }
  if (!is_pressed())
    pressed_since_.reset();
  else if (!pressed_since_)
    pressed_since_ = deps_.loop.now();
  const std::uint64_t most = deps_.config.cache.max_bytes;
  const bool is_large = most != 0 && sum() > most;
  const bool is_due = pressed_since_ && (deps_.loop.now() - *pressed_since_ >= k_patience ||
                                         deps_.areas.trees_in_trash() == 0);
  if (!is_large && !is_due) return;
  const auto next = next_to_go({});
  if (next == entries_.end()) return;
  if (is_large) {
    evict(next, "cache.max_bytes");
  } else {
    evict(next, "cache.keep_free", Haste::needed);
    pressed_since_ = deps_.loop.now();
  }
}

bool Cache::is_pressed() const {
  struct statvfs disk {};
  if (::fstatvfs(deps_.areas.cache_fd(), &disk) != 0 || disk.f_blocks == 0) return false;
  const auto is_short = [this](fsblkcnt_t free, fsblkcnt_t all) {
    return static_cast<double>(free) * 100 <
           static_cast<double>(all) * static_cast<double>(deps_.config.cache.keep_free_percent);
  };
  return is_short(disk.f_bavail, disk.f_blocks) || is_short(disk.f_favail, disk.f_files);
}

std::uint64_t Cache::sum() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, kept] : entries_) bytes = added(bytes, kept.entry.bytes);
  return bytes;
}

void Cache::add_to(Metrics& metrics) const {
  metrics.cache_entries = entries_.size();
  metrics.cache_bytes = sum();
}

}  // namespace nodestage
