// Cache: the shared items that this node keeps, which job uses which entry, and when an entry is
// removed: one without users as soon as its space is needed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/os/permissions.hpp"
#include "common/settings/config.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/cache/cache_area.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/tasks/trash.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class Cache {
 public:
  struct Deps {
    Loop& loop;
    const Config& config;
    Areas& areas;
    Workers& workers;
    Trash& trash;
    Counters& counters;
    std::string boot;
  };
  explicit Cache(const Deps& deps) : deps_(deps) {}
  Cache(const Cache&) = delete;

  // Takes the entries of an earlier daemon. Call it first, then use() for what its jobs use, and
  // loaded() when no worker of it runs that is not taken over. Entries that do not count are trash
  // by then, which is not swept here.
  void load();
  void loaded();
  void settings_changed();

  // Returns why nothing is kept on this node; "" if entries are.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  // The user of what is kept for all who may read its source; none where nothing is.
  [[nodiscard]] const std::optional<LocalUser>& keeper() const { return keeper_; }

  // Returns the entry; null if there is none that further jobs may use.
  [[nodiscard]] const CacheEntry* find(const std::string& name) const;
  [[nodiscard]] std::string path() const { return deps_.areas.cache_path(); }
  // Returns whether a tree that lies below there can be kept.
  [[nodiscard]] bool is_on_its_disk(int directory_fd) const;

  // Makes a new directory for an entry that a job is about to stage. Refuses a name whose entry is
  // in use and no further job may use.
  Status reserve(CacheEntry& entry);
  // Drops a reserved entry that will not be staged. Does nothing to one that was published.
  void abandon(const CacheEntry& entry) {
    if (!entries_.contains(entry.name)) static_cast<void>(!area_.discard(entry));
  }
  // Publishes the entry (CacheArea::publish()), which entry.made_by, of that user, then uses. Does
  // nothing for what that job has published already.
  Status publish(CacheEntry entry, std::uint32_t uid, int job_fd, const std::string& destination);

  // Notes what the job that has published entries is called by its user.
  void name_maker(const JobKey& job, const JobFacts& facts);

  // Returns whether a change from now on will be seen as one; true if there is no entry. Until
  // then, some milliseconds, no job may run that uses it.
  [[nodiscard]] bool is_settled(const std::string& name) const;

  // Notes that the job, of that user, uses the entry until release(), and lets the user in. Does
  // nothing where there is none. A fault: the user cannot be let in.
  Status use(const std::string& name, const JobKey& job, std::uint32_t uid);
  void hit(const std::string& name, std::uint32_t uid);  // counts it
  void release(const JobKey& job);

  // Returns how much of that file system make_room() can free, at most.
  [[nodiscard]] Amount unused_on(int disk_fd) const;
  // Removes the unused entry whose turn it is (of that user alone), and returns whether there was
  // one. The space is free once the trash is empty.
  bool make_room();
  bool make_room_of(std::uint32_t uid);

  // Where entries are, and where the keeper stages one for readers. What it has staged is removed
  // by remove_work().
  [[nodiscard]] const CacheArea& area() const { return area_; }
  void remove_work(const CacheEntry& entry) const {
    area_.remove_work(entry);
    deps_.trash.sweep();
  }

  // Returns what `uid` may see (root: all). drop() removes those named, all if none is: some at
  // once, and the rest, which no job uses any more, some at a time.
  [[nodiscard]] std::vector<CacheRow> rows(std::uint32_t uid) const;
  std::vector<CacheRow> drop(std::uint32_t uid, const std::vector<std::string>& names);
  void add_to(Metrics& metrics) const;

 private:
  struct Kept {
    CacheEntry entry;
    std::map<JobKey, std::uint32_t> users;  // and whose job it is
    std::uint64_t hits = 0;
    std::string fault;  // not empty: it does not count any more, and goes when its users have gone
    bool is_stuck = false;  // it could not be removed, and is tried again
    Clock::time_point settled_by{};
    bool is_dropped = false;  // drop() has not come to it yet
  };
  using Entries = std::map<std::string, Kept>;
  // The trees of one user of which is to be found out whether they are as they were published. A
  // worker with the user's rights does that, one at a time, at the lowest priority.
  struct Comparisons {
    std::set<std::string> waiting;  // names
    bool is_at_work = false;
  };
  static bool can_go(const Kept& kept) { return kept.users.empty() && !kept.is_stuck; }
  void find_keeper();
  Status let_in(const Kept& kept);
  void add(CacheEntry entry);
  void unused(const std::string& name);
  // Queues a comparison, unless one is queued already.
  void compare(const CacheEntry& entry);
  void compare_next(std::uint32_t uid);
  bool start_comparison(const CacheEntry& entry);
  void comparison_ended(const std::string& name, std::uint32_t uid, ChangeTime before,
                        int status_fd, const WorkerEnd& end);
  // `before`: when the entry was published; `fault`: why it does not count any more, or "". Must
  // not queue another comparison.
  void compared(const std::string& name, ChangeTime before, const std::string& fault);
  enum class Haste { none, needed };
  bool evict(Entries::iterator kept, const char* why, Haste haste = Haste::none);
  using Which = std::function<bool(const CacheEntry&)>;
  [[nodiscard]] Entries::iterator next_to_go(const Which& which);
  void drop_some();
  void look_after();
  void look();
  [[nodiscard]] bool is_pressed() const;
  [[nodiscard]] bool is_on_device_of(int fd) const;
  [[nodiscard]] std::uint64_t sum() const;
  [[nodiscard]] CacheRow row_of(const Kept& kept) const;

  Deps deps_;
  CacheArea area_{deps_.areas, deps_.boot};
  Entries entries_;
  std::map<std::uint32_t, Comparisons> comparisons_;  // by uid
  std::string refusal_;
  std::optional<LocalUser> keeper_;
  std::optional<Loop::TimerId> timer_;
  std::optional<Clock::time_point>
      pressed_since_;  // the disk lacks free space, or the last entry went
};

}  // namespace nodestage
