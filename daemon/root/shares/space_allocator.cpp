#include "daemon/root/shares/space_allocator.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/text/human.hpp"
#include "daemon/root/table/job_files.hpp"

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

namespace {

constexpr std::chrono::milliseconds k_claim_poll{50};
constexpr std::chrono::seconds k_review_interval{1};
constexpr std::chrono::seconds k_least_patience{30};  // once something was removed for the claim
constexpr const char* k_answers = "answer";           // the end of the file's name

}  // namespace

// It has its full length, so that an answer can be written over it on a full disk, too.
Result<Fd> SpaceAllocator::make_answer_file(const JobKey& key) const {
  TRY_ASSIGN(Fd file, areas_.open_status(key, k_answers, O_RDWR | O_CREAT | O_TRUNC));
  TRY(write_space_answer(file.get(), {}));
  return file;
}

void SpaceAllocator::open(const JobKey& key, Subject subject, Fd directory, WorkerTask task) {
  struct stat info {};
  if (::fstat(directory.get(), &info) != 0) info.st_dev = 0;
  SpaceAnswer last{};
  if (const auto file = areas_.open_status(key, k_answers, O_RDONLY)) {
    if (const auto read = read_space_answer(file->get())) last = *read;
  }
  ledger_.open(key, subject.uid, info.st_dev, loop_.now(), last);
  clients_.insert_or_assign(key, Client{std::move(subject), std::move(directory), {}, task});
  if (!timer_) timer_ = loop_.after(k_claim_poll, [this] { attend_all(); });
}

bool SpaceAllocator::close(const JobKey& key) {
  const auto found = clients_.find(key);
  if (found == clients_.end()) return false;
  const bool was_refused = found->second.was_refused;
  clients_.erase(found);
  ledger_.close(key);
  return was_refused;
}

// First reads all claims, so that each answer considers all of them.
void SpaceAllocator::attend_all() {
  timer_.reset();
  std::vector<JobKey> asking;
  for (auto& [key, client] : clients_) {
    const auto file = areas_.open_status(key, traits_of(client.task).name, O_RDONLY);
    const auto claim = file ? read_space_claim(file->get()) : Result<SpaceClaim>(file.error());
    if (!claim || !ledger_.note(key, *claim)) continue;
    client.with_spare = claim->with_spare != 0;
    asking.push_back(key);
  }
  if (loop_.now() - reviewed_ >= k_review_interval) review_all();
  for (const JobKey& key : asking) attend(key, clients_.at(key));
  if (!clients_.empty()) timer_ = loop_.after(k_claim_poll, [this] { attend_all(); });
}

void SpaceAllocator::attend(const JobKey& key, Client& client) {
  const SpaceAnswer answer = ledger_.answer(key, terms_for(client));
  if (answer.granted == 0 && awaits_room(key, client, answer)) return;
  if (!put_answer(key, answer)) return;  // tried again at the next turn
  client.was_refused = answer.granted == 0;
  client.lacks_since.reset();
  const Amount promised = ledger_.promised_to(key);
  log::debug(client.subject, "{} {} and {} inodes of the local disk",
             answer.granted != 0 ? "promised" : "refused more than", human_bytes(promised.bytes),
             promised.inodes);
}

// Once a second, what each was promised follows what it has written.
void SpaceAllocator::review_all() {
  reviewed_ = loop_.now();
  for (const auto& [key, client] : clients_) {
    const Amount before = ledger_.promised_to(key);
    const auto answer = ledger_.review(key, terms_for(client));
    if (!answer || !put_answer(key, *answer)) continue;
    const Amount lost = before - ledger_.promised_to(key);
    if (lost == Amount{}) continue;
    log::info(client.subject,
              "has written too little lately: of the local disk promised to it, {} and {} inodes "
              "are free for others",
              human_bytes(lost.bytes), lost.inodes);
  }
}

Status SpaceAllocator::put_answer(const JobKey& key, const SpaceAnswer& answer) {
  const auto file = areas_.open_status(key, k_answers, O_WRONLY);
  Status written = file ? write_space_answer(file->get(), answer) : Status(file.error());
  if (written) {
    ledger_.book(key, answer);
  } else {
    log::error(clients_.at(key).subject,
               "the answer to its request for space cannot be written: {}", written.error().what);
  }
  return written;
}

SpaceLedger::Terms SpaceAllocator::terms_for(const Client& client) const {
  const auto& staging = config_.staging;
  return {free_on(client.disk.get()), staging.leave_free_bytes, staging.promise_share_percent,
          std::chrono::seconds(staging.promise_time_s), loop_.now()};
}

// Entries that are kept and not in use go to the trash, one after another: what each frees is known
// when it is gone. None goes for a claim that all of them could not satisfy.
bool SpaceAllocator::awaits_room(const JobKey& key, Client& client,
                                 const SpaceAnswer& refusal) const {
  if (is_waiting_for_trash(client, refusal.free)) return true;
  const Amount all = refusal.free + unused_.on_disk(client.disk.get());
  const Amount without_promises = all - Amount{refusal.leave_free, 0};
  const Amount least = ledger_.least_of(key);
  if (fits(least, without_promises - refusal.promised)) {
    if (!unused_.remove_one()) return false;
    client.made_room = true;
    client.freed.since = loop_.now();
    return true;
  }
  return !client.with_spare && fits(least, without_promises) && awaits_promises(client);
}

// Others write what they were promised, lose it, or end.
bool SpaceAllocator::awaits_promises(Client& client) const {
  if (!client.lacks_since) {
    client.lacks_since = loop_.now();
    log::info(client.subject, "waits for space on the local disk that others were promised");
  }
  return loop_.now() - *client.lacks_since < std::chrono::seconds(config_.staging.space_wait_s);
}

std::string SpaceAllocator::lack_of(const JobKey& key) const {
  const auto found = clients_.find(key);
  if (found == clients_.end() || !found->second.lacks_since) return {};
  return human_bytes(ledger_.least_of(key).bytes) +
         " of local disk, promised to other jobs that stage here";
}

// Trees of jobs that have ended are removed in the background. While that frees space, no claim is
// refused.
bool SpaceAllocator::is_waiting_for_trash(Client& client, const Amount& free) const {
  const auto now = loop_.now();
  Freed& freed = client.freed;
  std::chrono::seconds patience(config_.staging.trash_wait_s);
  if (client.made_room) patience = std::max(patience, k_least_patience);
  const bool is_removing = areas_.trees_in_trash() > 0;
  if (is_removing && (!freed.since || !fits(free, freed.most))) freed.since = now;
  freed.most = larger(freed.most, free);
  return is_removing && now - *freed.since < patience;
}

}  // namespace nodestage
