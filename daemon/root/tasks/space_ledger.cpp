#include "daemon/root/tasks/space_ledger.hpp"

namespace nodestage {

Amount SpaceLedger::promise_of(const Entry& entry) {
  const Amount need = larger(entry.claim.need, entry.claim.least);
  return smaller(entry.admitted, need) - entry.written;
}

void SpaceLedger::open(const JobKey& job, dev_t device, const SpaceAnswer& last) {
  Entry& entry = entries_[job] = {};
  entry.device = device;
  entry.admitted = last.admitted;
  entry.written = last.written;
  entry.answered = last.serial;
  entry.claim.need = last.admitted;  // until it is read
}

bool SpaceLedger::note(const JobKey& job, const SpaceClaim& claim) {
  const auto found = entries_.find(job);
  if (found == entries_.end()) return false;
  Entry& entry = found->second;
  entry.claim = claim;
  entry.written = larger(entry.written, claim.written);
  return claim.serial != 0 && claim.serial != entry.answered;
}

SpaceAnswer SpaceLedger::answer(const JobKey& job, const Amount& free,
                                std::uint64_t leave_free) const {
  const Entry& entry = entries_.at(job);
  Disk disk;
  disk.free = free;
  disk.leave_free = leave_free;
  for (const auto& [key, other] : entries_) {
    if (key == job || other.device != entry.device || promise_of(other) == Amount{}) continue;
    disk.promised = disk.promised + promise_of(other);
    ++disk.others;
  }
  SpaceClaim claim = entry.claim;
  claim.written = entry.written;
  return decide(claim, entry.admitted, disk);
}

void SpaceLedger::book(const JobKey& job, const SpaceAnswer& answer) {
  Entry& entry = entries_.at(job);
  entry.admitted = answer.admitted;
  entry.answered = answer.serial;
}

Amount SpaceLedger::least_of(const JobKey& job) const {
  const auto found = entries_.find(job);
  return found == entries_.end() ? Amount{} : found->second.claim.least - found->second.written;
}

Amount SpaceLedger::promised_to(const JobKey& job) const {
  const auto found = entries_.find(job);
  return found == entries_.end() ? Amount{} : promise_of(found->second);
}

}  // namespace nodestage
