// SpaceAllocator: admits workers to space on the local disk. Workers that stage ask for it in their
// status files, step by step as they learn how much they need; each gets its answers in a file that
// only the daemon writes (common/wire/status_file.hpp). The ledger decides what each is promised
// and notes it. A claim that lacks only what others were promised waits (`staging.space_wait`).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

// SpaceLedger: what each staging worker of this node was promised of the local disk and has not
// written yet.
//
// Two rules bound a promise, since a need is only what a source says of itself, and its user writes
// the source:
//  - A job is promised as much as it has written lately, and in its first minutes
//    (`promise_time`) at least what is left of its user's share.
//  - The share (`promise_share`) is a part of what the promises of other users leave.
// A job is always promised a little, so that it goes on. It gets the rest while it writes.
//
// A worker makes its claims with its user's rights. So that it cannot harm others beyond what it
// was granted, the amount that it claims to have written never decreases, the amount that it claims
// to need raises its promise by these rules only, and it is admitted against the disk's true free
// space. Only arithmetic: SpaceAllocator reads and writes the files.
class SpaceLedger {
 public:
  // What a promise depends on beside the claims.
  struct Terms {
    Amount free;                   // on the job's file system
    std::uint64_t leave_free = 0;  // bytes
    std::uint64_t share_percent = 100;
    std::chrono::seconds lately{3600};
    Clock::time_point now{};
  };

  // Adds a worker that starts, or is taken over with the last answer to it. Promises count among
  // jobs whose directories are on the same device.
  void open(const JobKey& job, uid_t uid, dev_t device, Clock::time_point now,
            const SpaceAnswer& last = {});
  void close(const JobKey& job) { entries_.erase(job); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  // Notes a claim. Returns whether it asks for an answer.
  bool note(const JobKey& job, const SpaceClaim& claim);

  // Returns the answer to the job's last claim. It counts once book() has been called with it.
  [[nodiscard]] SpaceAnswer answer(const JobKey& job, const Terms& terms) const;
  void book(const JobKey& job, const SpaceAnswer& answer);

  // Returns the job's last answer with what it is admitted now; nothing if that has not changed. A
  // job that has written little lately loses what it was promised beyond that.
  [[nodiscard]] std::optional<SpaceAnswer> review(const JobKey& job, const Terms& terms);

  // Returns what the job cannot do without and has not written.
  [[nodiscard]] Amount least_of(const JobKey& job) const;
  // Returns what the job was promised and has not written.
  [[nodiscard]] Amount promised_to(const JobKey& job) const;

 private:
  // What a job has written since `since`, and in the time before that.
  struct Pace {
    Clock::time_point since;
    Amount written_then;
    Amount before;
    bool is_young = true;  // its first time is not over
  };
  struct Entry {
    uid_t uid = 0;
    dev_t device = 0;
    SpaceClaim claim{};
    SpaceAnswer last{};
    Amount written;
    Pace pace;
  };
  static Amount promise_of(const Entry& entry);
  static bool keep_pace(Pace& pace, const Amount& written, const Terms& terms);
  static Amount lately_of(const Entry& entry);
  // The disk as one job has it.
  struct View {
    Disk disk;
    Amount available;
    Amount ahead;  // the most that is promised to the job
  };
  [[nodiscard]] View view_of(const JobKey& job, const Entry& entry, const Terms& terms) const;
  std::map<JobKey, Entry> entries_;
};

class SpaceAllocator {
 public:
  // Entries of the cache that no job uses.
  struct Unused {
    std::function<Amount(int disk_fd)> on_disk;  // at most so much of it is on that file system
    std::function<bool()> remove_one;            // moves one to the trash; false if there is none
  };
  SpaceAllocator(Loop& loop, const Config& config, const Areas& areas, Unused unused)
      : loop_(loop), config_(config), areas_(areas), unused_(std::move(unused)) {}

  // Makes the file of a worker that is about to start, in which the allocator answers it.
  [[nodiscard]] Result<Fd> make_answer_file(const JobKey& key) const;
  // Starts granting space to the job's worker. `directory`, the job's, stays open: the space of
  // what a user mounts over it later does not count.
  // `task`: of the worker that claims.
  void open(const JobKey& key, Subject subject, Fd directory, WorkerTask task = WorkerTask::stage);
  // Stops granting space. Returns whether the worker's last claim was refused.
  bool close(const JobKey& key);

  // Returns what the job was promised and has not written.
  [[nodiscard]] Amount promised_to(const JobKey& key) const { return ledger_.promised_to(key); }
  // Returns what a job waits for because others were promised it, such as "1.0 GiB of local disk,
  // …"; "" for any other.
  [[nodiscard]] std::string lack_of(const JobKey& key) const;

 private:
  // While a refusal waits for the trash to be emptied.
  struct Freed {
    std::optional<Clock::time_point> since;  // the free space last grew then
    Amount most;
  };
  struct Client {
    Subject subject;
    Fd disk;
    Freed freed;
    WorkerTask task;
    bool with_spare = false;  // its last claim
    bool made_room = false;
    bool was_refused = false;
    std::optional<Clock::time_point> lacks_since;  // space that others were promised
  };
  void attend_all();
  void attend(const JobKey& key, Client& client);
  void review_all();
  Status put_answer(const JobKey& key, const SpaceAnswer& answer);
  [[nodiscard]] SpaceLedger::Terms terms_for(const Client& client) const;
  bool awaits_room(const JobKey& key, Client& client, const SpaceAnswer& refusal) const;
  bool awaits_promises(Client& client) const;
  [[nodiscard]] bool is_waiting_for_trash(Client& client, const Amount& free) const;

  Loop& loop_;
  const Config& config_;
  const Areas& areas_;
  Unused unused_;
  SpaceLedger ledger_;
  std::map<JobKey, Client> clients_;
  std::optional<Loop::TimerId> timer_;
  Clock::time_point reviewed_{};
};

}  // namespace nodestage
