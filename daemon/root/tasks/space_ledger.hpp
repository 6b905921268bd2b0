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
// space. Only arithmetic: SpaceDesk (space_desk.hpp) reads and writes the files.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "common/wire/space_claim.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

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

}  // namespace nodestage
