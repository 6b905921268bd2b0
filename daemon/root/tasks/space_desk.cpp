#include "daemon/root/tasks/space_desk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_claim_poll{50};
constexpr std::chrono::seconds k_least_patience{30};  // once something was removed for the claim
constexpr const char* k_claims = "stage";    // the end of the name of the worker's status file
constexpr const char* k_answers = "answer";  // and of the file beside it

}  // namespace

// It has its full length, so that an answer can be written over it on a full disk, too.
Result<Fd> SpaceDesk::make_answer_file(const JobKey& key) const {
  TRY_ASSIGN(Fd file, areas_.open_status(key, k_answers, O_RDWR | O_CREAT | O_TRUNC));
  TRY(write_space_answer(file.get(), {}));
  return file;
}

void SpaceDesk::open(const JobKey& key, Subject subject, Fd directory) {
  struct stat info {};
  if (::fstat(directory.get(), &info) != 0) info.st_dev = 0;
  SpaceAnswer last{};
  if (const auto file = areas_.open_status(key, k_answers, O_RDONLY)) {
    if (const auto read = read_space_answer(file->get())) last = *read;
  }
  ledger_.open(key, info.st_dev, last);
  customers_.insert_or_assign(key, Customer{std::move(subject), std::move(directory), {}});
  if (!timer_) timer_ = loop_.after(k_claim_poll, [this] { attend_all(); });
}

bool SpaceDesk::close(const JobKey& key) {
  const auto found = customers_.find(key);
  if (found == customers_.end()) return false;
  const bool was_refused = found->second.was_refused;
  customers_.erase(found);
  ledger_.close(key);
  return was_refused;
}

// First reads all claims, so that each answer considers all of them.
void SpaceDesk::attend_all() {
  timer_.reset();
  std::vector<JobKey> asking;
  for (const auto& [key, customer] : customers_) {
    const auto file = areas_.open_status(key, k_claims, O_RDONLY);
    const auto claim = file ? read_space_claim(file->get()) : Result<SpaceClaim>(file.error());
    if (claim && ledger_.note(key, *claim)) asking.push_back(key);
  }
  for (const JobKey& key : asking) attend(key, customers_.at(key));
  if (!customers_.empty()) timer_ = loop_.after(k_claim_poll, [this] { attend_all(); });
}

void SpaceDesk::attend(const JobKey& key, Customer& customer) {
  const SpaceAnswer answer =
      ledger_.answer(key, free_on(customer.disk.get()), config_.staging.leave_free_bytes);
  if (answer.granted == 0 && awaits_room(key, customer, answer)) return;
  const auto file = areas_.open_status(key, k_answers, O_WRONLY);
  const Status written = file ? write_space_answer(file->get(), answer) : Status(file.error());
  if (!written) {
    log::error(customer.subject, "the answer to its request for space cannot be written: {}",
               written.error().what);
    return;  // tried again at the next turn
  }
  ledger_.book(key, answer);
  customer.was_refused = answer.granted == 0;
  const Amount promised = ledger_.promised_to(key);
  log::debug(customer.subject, "{} {} and {} inodes of the local disk",
             answer.granted != 0 ? "promised" : "refused more than", human_bytes(promised.bytes),
             promised.inodes);
}

// What is kept and not in use goes to the trash, one after another: what each frees is known when
// it is gone. Nothing goes for a claim that could not be granted if all of it were gone.
bool SpaceDesk::awaits_room(const JobKey& key, Customer& customer,
                            const SpaceAnswer& refusal) const {
  if (is_waiting_for_trash(customer, refusal.free)) return true;
  const Amount all = refusal.free + unused_.on_disk(customer.disk.get());
  const Amount available = all - Amount{refusal.leave_free, 0} - refusal.promised;
  if (!fits(ledger_.least_of(key), available) || !unused_.remove_one()) return false;
  customer.made_room = true;
  customer.freed.since = loop_.now();
  return true;
}

// Trees of jobs that have ended are removed in the background. While that frees space, no claim is
// refused.
bool SpaceDesk::is_waiting_for_trash(Customer& customer, const Amount& free) const {
  const auto now = loop_.now();
  Freed& freed = customer.freed;
  std::chrono::seconds patience(config_.staging.trash_wait_s);
  if (customer.made_room) patience = std::max(patience, k_least_patience);
  const bool is_removing = !areas_.list_trash().empty();
  if (is_removing && (!freed.since || !fits(free, freed.most))) freed.since = now;
  freed.most = larger(freed.most, free);
  return is_removing && now - *freed.since < patience;
}

}  // namespace nodestage
