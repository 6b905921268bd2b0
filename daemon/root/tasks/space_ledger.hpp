// SpaceLedger: what each staging worker of this node was promised of the local disk and has not
// written yet.
//
// A worker makes its claims with its user's rights. So that it cannot harm others beyond what it
// was granted, the amount that it claims to have written never decreases, the amount that it claims
// to need never raises its promise, and it is admitted against the disk's true free space. Only
// arithmetic: SpaceDesk (space_desk.hpp) reads and writes the files.
#pragma once

#include <sys/types.h>

#include <map>

#include "common/wire/space_claim.hpp"
#include "daemon/root/basis/areas.hpp"

namespace nodestage {

class SpaceLedger {
 public:
  // A worker starts, or is taken over with the last answer to it. Promises count among jobs whose
  // directories are on the same device.
  void open(const JobKey& job, dev_t device, const SpaceAnswer& last = {});
  void close(const JobKey& job) { entries_.erase(job); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  // Notes a claim. Returns whether it asks for an answer.
  bool note(const JobKey& job, const SpaceClaim& claim);

  // The answer to the job's last claim. It counts once book() has been called with it.
  [[nodiscard]] SpaceAnswer answer(const JobKey& job, const Amount& free,
                                   std::uint64_t leave_free) const;
  void book(const JobKey& job, const SpaceAnswer& answer);

  // What the job cannot do without and has not written.
  [[nodiscard]] Amount least_of(const JobKey& job) const;
  // What the job was promised and has not written.
  [[nodiscard]] Amount promised_to(const JobKey& job) const;

 private:
  struct Entry {
    dev_t device = 0;
    SpaceClaim claim{};
    Amount admitted;
    Amount written;
    std::uint64_t answered = 0;  // serial
  };
  static Amount promise_of(const Entry& entry);
  std::map<JobKey, Entry> entries_;
};

}  // namespace nodestage
