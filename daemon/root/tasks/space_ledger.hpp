// SpaceLedger: what each staging worker of this node was promised of the local disk and has not
// written yet.
//
// A worker's claims are made with its user's rights. So that none can harm others beyond what it
// was admitted: what it says it has written never goes down, what it says it needs never raises
// what it was promised, and it is admitted against the disk's true free space. Only arithmetic;
// the records are read and written by SpaceDesk (space_desk.hpp).
#pragma once

#include <sys/types.h>

#include <map>

#include "common/wire/space_claim.hpp"
#include "daemon/root/basis/areas.hpp"

namespace nodestage {

class SpaceLedger {
 public:
  // A worker begins, or is taken over with the last answer to it. Promises count among jobs whose
  // directories are on one device.
  void open(const JobKey& job, dev_t device, const SpaceAnswer& last = {});
  void close(const JobKey& job) { entries_.erase(job); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  // Takes a claim to the books; whether it asks for an answer.
  bool note(const JobKey& job, const SpaceClaim& claim);

  // The answer to the job's last claim. It counts once book() was called with it.
  [[nodiscard]] SpaceAnswer answer(const JobKey& job, const Amount& free,
                                   std::uint64_t leave_free) const;
  void book(const JobKey& job, const SpaceAnswer& answer);

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
