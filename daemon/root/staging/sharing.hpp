// Sharing: what a job does with its shared items (common/wire/worker_order.hpp), from its wish to
// the moment when what it staged is kept for others.
//
// The first job that lacks an entry leads: it stages the item, and others that want the same wait
// for it, holding neither a place among staging.max_jobs nor promised space. A job leads all that
// it lacks and nobody leads yet, in the order in which jobs were identified, and if a leader gives
// up, the earliest of those that wait for that entry leads. So jobs wait only for earlier ones, and
// never for each other. When two jobs in a row could not stage an entry, each stages for itself.
//
// What is kept for all who may read its source is led by another user's job, perhaps, which may not
// come to it for long. So each job that wants it asks for a place, and leads from the moment at
// which the keeper starts on it to its end: nobody waits for what only another job waits for. After
// cache.readers_wait, a job that waits stages for itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/root/cache/cache.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/staging/keeping.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/records.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Sharing {
 public:
  struct Deps : JobDeps {
    Cache& cache;
    Keeping& keeping;
  };
  explicit Sharing(const Deps& deps) : deps_(deps) {}
  Sharing(const Sharing&) = delete;

  // Whether the job's shared items must be identified before it stages; false when it has none.
  [[nodiscard]] bool concerns(const JobRecord& record) const;
  // Finds out and decides what the job does with its shared items. Reports `identified`, or
  // `linked` if it only links to what is there: `shared` is complete and in the journal. Before
  // that, perhaps: `unsettled`, `led` and `to_keep`, after which next_to_keep() follows once the
  // job has a place.
  void decide(JobRecord& record);
  // Reports `settled`, once for each run of a job: a source can change for ever.
  void await_settled(const JobRecord& record);
  // After a restart of the daemon: notes what the job uses, and what it is staging for others.
  void carry_on(const JobRecord& record);

  // Keeps the items that the job's worker reports to be in place, and lets the jobs go on that have
  // waited for them. With Report::last, what is not in place will not be. A fault: the job's links
  // lead nowhere, so it must stage again.
  enum class Report { more, last };
  Status staged(JobRecord& record, const WorkerStatus& status, Report report);
  // Whether staged() would find anything with Report::more.
  [[nodiscard]] bool has_news(const JobRecord& record, const WorkerStatus& status) const;
  // Whether `identified` or `linked` is still to follow.
  [[nodiscard]] bool is_undecided(const JobKey& key) const { return askers_.contains(key); }
  // What the keeper shall stage for the job now (Keeping::keep()), for all who may read the
  // sources: one item, or several small ones, which the job leads from now on. None: others do, or
  // nothing is left of it.
  [[nodiscard]] KeepItems next_to_keep(const JobRecord& record);
  // Takes its report. `end`: how the process ended. What failed, the job stages for itself.
  void kept(const JobRecord& record, const KeepItems& items, const WorkerStatus& status,
            const std::string& end);

  // Whether the job may run with what it uses: see Cache::is_settled().
  [[nodiscard]] bool is_settled(const JobRecord& record) const;
  // Lets others lead, as the job's staging has failed. The caller saves the record.
  void failed(JobRecord& record);
  // Whether others wait for what the job stages.
  [[nodiscard]] bool leads(const JobKey& key) const;
  // Forgets what a job that has ended waits for and uses.
  void release(const JobRecord& record);

  // Returns what a job waits for: "job 4711, which ...", or "data.tar, which ..."; "" if it waits
  // for nothing here.
  [[nodiscard]] std::string waits_for(const JobKey& key) const;

 private:
  static constexpr const char* k_for_all = ", for all who may read it";

  struct Want {
    SharedItem shared;
    CacheEntry entry;
    bool is_open = true;  // it is not decided yet

    [[nodiscard]] bool waits_for(const std::string& name) const {
      return is_open && entry.name == name;
    }
    // The job stages it for itself.
    void become_own(const std::string& why) {
      is_open = false;
      shared = {shared.item, ShareRole::own, "", "", why};
    }
  };
  struct Asker {
    std::uint64_t turn = 0;  // an earlier one leads
    std::vector<Want> wants;
    std::size_t items = 0;  // of the whole request
    bool is_late = false;   // it has waited for cache.readers_wait

    // What the keeper has staged for this job.
    void take(const std::string& name, const ItemRecord& item) {
      for (Want& want : wants) {
        if (!want.waits_for(name)) continue;
        want.shared.files = item.files;
        want.shared.bytes = item.bytes_written;
        want.shared.elapsed_ms = std::max<std::uint64_t>(1, item.elapsed_ms);
      }
    }
    void give_own(const std::string& name) {
      for (Want& want : wants)
        if (want.waits_for(name)) want.become_own("it could not be kept for others");
    }
    [[nodiscard]] bool waits_for(const std::string& name) const {
      return std::any_of(wants.begin(), wants.end(),
                         [&name](const Want& want) { return want.waits_for(name); });
    }
  };
  struct Fill {
    CacheEntry entry;  // what was reserved for its leader, entry.made_by
    unsigned failures = 0;
    bool has_leader = false;
    bool is_slow = false;  // for the keeper: it has a process to itself

    [[nodiscard]] bool is_led_by(const JobKey& key) const {
      return has_leader && entry.made_by == key;
    }
  };
  enum class Failure { counts, none };

  [[nodiscard]] std::string kept_now(const JobKey& key) const;
  // The job that staged it, or does: "job 4711".
  [[nodiscard]] std::string maker_of(const CacheEntry& entry) const;

  Turns::Begun identify(const JobKey& key);
  void identified(const JobKey& key, std::uint32_t uid, const WorkerEnd& end);
  // The name, and whose it is.
  void set_owner(const JobRecord& record, const SharedItem& shared, CacheEntry& entry) const;
  void take_keys(JobRecord& record);
  [[nodiscard]] std::optional<LocalUser> owner_of(const JobRecord& record,
                                                  const SharedItem& shared) const;
  [[nodiscard]] std::string name_of(const JobRecord& record, const SharedItem& shared) const;
  // Whether the job's own worker stages it for others.
  [[nodiscard]] bool is_led(const JobRecord& record, const SharedItem& shared) const;
  void ask(const JobRecord& record);
  [[nodiscard]] bool is_unsettled(const JobKey& key, const WorkerStatus& status);
  [[nodiscard]] Want want_of(const JobRecord& record, const ItemRecord& item, std::uint32_t index,
                             bool for_readers) const;
  void settle(const JobKey& key);
  void settle(const JobRecord& record, Asker& asker, Want& want);
  void conclude(const JobKey& key);
  void await_readers(const JobKey& key, std::uint64_t turn);
  void drop_unwanted(const std::string& name);
  void go_on(const std::string& name);
  Status keep(const JobRecord& record, const ItemRecord& item, const CacheEntry& entry);
  Status publish(const JobRecord& record, const ItemRecord& item, CacheEntry entry, int directory,
                 const std::string& path);
  void lead_ended(const std::string& name, Failure failure);
  void give_up(const JobKey& key, Failure failure);
  [[nodiscard]] std::string refusal(const JobRecord& record) const;

  Deps deps_;
  Turns turns_{deps_.loop};
  std::map<JobKey, Asker> askers_;     // that are not decided
  std::map<std::string, Fill> fills_;  // by the entry's name
  std::set<JobKey> plain_;             // jobs that share nothing, after a fault
  struct Unsettled {
    std::string name;  // of the source
    std::uint64_t until_ms = 0;
  };
  std::map<JobKey, Unsettled> unsettled_;  // of jobs that wait for it, or have
  // Users whose trees could not be moved into the cache, until the next daemon: either the file
  // system cannot do it, or the user sees to that.
  std::set<std::uint32_t> broken_;
  std::uint64_t next_turn_ = 1;
};

}  // namespace nodestage
