#include "daemon/root/tasks/space_ledger.hpp"

#include <algorithm>

namespace nodestage {
namespace {

// More than a worker has in its memory, and enough to go on at the speed of a disk if it asks again
// each time; less where that would be much of what is left.
constexpr Amount k_little{256ULL << 20, 4096};
constexpr std::uint64_t k_part_of_rest = 16;

Amount little_of(const Amount& available) {
  return smaller(k_little, {available.bytes / k_part_of_rest, available.inodes / k_part_of_rest});
}

Amount part_of(const Amount& amount, std::uint64_t percent) {
  return {amount.bytes / 100 * percent + amount.bytes % 100 * percent / 100,
          amount.inodes / 100 * percent + amount.inodes % 100 * percent / 100};
}

}  // namespace

Amount SpaceLedger::promise_of(const Entry& entry) {
  const Amount need = larger(entry.claim.need, entry.claim.least);
  return smaller(entry.last.admitted, need) - entry.written;
}

Amount SpaceLedger::lately_of(const Entry& entry) {
  return larger(entry.written - entry.pace.written_then, entry.pace.before);
}

void SpaceLedger::open(const JobKey& job, uid_t uid, dev_t device, Clock::time_point now,
                       const SpaceAnswer& last) {
  Entry& entry = entries_[job] = {};
  entry.uid = uid;
  entry.device = device;
  entry.last = last;
  entry.written = last.written;
  entry.claim.serial = last.serial;
  entry.claim.need = last.admitted;  // until it is read
  entry.pace.since = now;
  entry.pace.written_then = last.written;
}

bool SpaceLedger::note(const JobKey& job, const SpaceClaim& claim) {
  const auto found = entries_.find(job);
  if (found == entries_.end()) return false;
  Entry& entry = found->second;
  entry.claim = claim;
  entry.written = larger(entry.written, claim.written);
  return claim.serial != 0 && claim.serial != entry.last.serial;
}

// With all promises but the job's own.
SpaceLedger::View SpaceLedger::view_of(const JobKey& job, const Entry& entry,
                                       const Terms& terms) const {
  View view;
  Amount of_user;
  for (const auto& [key, other] : entries_) {
    const Amount promise = promise_of(other);
    if (key == job || other.device != entry.device || promise == Amount{}) continue;
    view.disk.promised = view.disk.promised + promise;
    if (other.uid == entry.uid) of_user = of_user + promise;
    ++view.disk.others;
  }
  view.disk.free = terms.free;
  view.disk.leave_free = terms.leave_free;
  const Amount usable = terms.free - Amount{terms.leave_free, 0};
  view.available = usable - view.disk.promised;
  view.ahead = larger(little_of(view.available), lately_of(entry));
  if (!entry.pace.is_young) return view;
  const Amount share = part_of(usable - (view.disk.promised - of_user), terms.share_percent);
  view.ahead = larger(view.ahead, share - of_user);
  return view;
}

SpaceAnswer SpaceLedger::answer(const JobKey& job, const Terms& terms) const {
  const Entry& entry = entries_.at(job);
  const View view = view_of(job, entry, terms);
  SpaceClaim claim = entry.claim;
  claim.written = entry.written;
  SpaceAnswer answer = decide(claim, entry.last.admitted, view.disk);
  if (answer.granted != 0) answer.admitted = smaller(answer.admitted, entry.written + view.ahead);
  return answer;
}

void SpaceLedger::book(const JobKey& job, const SpaceAnswer& answer) {
  entries_.at(job).last = answer;
}

// Returns whether another time begins.
bool SpaceLedger::keep_pace(Pace& pace, const Amount& written, const Terms& terms) {
  if (terms.now - pace.since < terms.lately) return false;
  pace = {terms.now, written, written - pace.written_then, false};
  return true;
}

// A job keeps what it was promised until the time is over. One that asks, or was refused, is given
// no more here.
std::optional<SpaceAnswer> SpaceLedger::review(const JobKey& job, const Terms& terms) {
  Entry& entry = entries_.at(job);
  const bool may_shrink = keep_pace(entry.pace, entry.written, terms);
  if (entry.last.serial == 0) return {};
  const View view = view_of(job, entry, terms);
  const Amount need = larger(entry.claim.need, entry.claim.least) - entry.written;
  SpaceAnswer answer = entry.last;
  answer.admitted = entry.written + smaller(need, smaller(view.available, view.ahead));
  const bool may_grow = answer.granted != 0 && entry.claim.serial == answer.serial;
  if (!may_grow) answer.admitted = smaller(answer.admitted, entry.last.admitted);
  if (!may_shrink) answer.admitted = larger(answer.admitted, entry.last.admitted);
  if (answer.admitted == entry.last.admitted) return {};
  return answer;
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
