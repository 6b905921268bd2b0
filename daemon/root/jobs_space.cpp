// Room on the local disk: what the workers that stage ask for, and what they are promised.
#include <fcntl.h>
#include <sys/stat.h>

#include "common/text/human.hpp"
#include "daemon/root/jobs.hpp"
#include "daemon/root/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_claim_poll{50};
constexpr const char* k_answer = "answer";  // the name of the file, beside "stage" and "out"

}  // namespace

// Before the worker starts: a file that says nothing yet. It has its whole length, so that on a
// full disk too an answer can be written over it.
Result<Fd> Jobs::make_answer_file(const Job& job) const {
  TRY_ASSIGN(Fd file,
             at_.areas.open_status(job.record.key(), k_answer, O_RDWR | O_CREAT | O_TRUNC));
  TRY(write_space_answer(file.get(), {}));
  return file;
}

// `directory`, the job's, is kept: what a user mounts over it later is not asked for its space.
void Jobs::watch_space(Job& job, Fd directory) {
  const JobKey key = job.record.key();
  struct stat info {};
  if (::fstat(directory.get(), &info) != 0) info.st_dev = 0;
  SpaceAnswer last{};
  if (const auto file = at_.areas.open_status(key, k_answer, O_RDONLY)) {
    if (const auto read = read_space_answer(file->get())) last = *read;
  }
  ledger_.open(key, info.st_dev, last);
  job.disk = std::move(directory);
  job.freed = {};
  if (!claims_timer_) claims_timer_ = at_.loop.after(k_claim_poll, [this] { attend_claims(); });
}

void Jobs::forget_space(Job& job) {
  ledger_.close(job.record.key());
  job.disk.reset();
}

// First all that is known, so that each answer knows of all.
void Jobs::attend_claims() {
  claims_timer_.reset();
  std::vector<Job*> asking;
  for (auto& [key, job] : jobs_) {
    if (!job.disk) continue;
    const auto file = at_.areas.open_status(key, "stage", O_RDONLY);
    const auto claim = file ? read_space_claim(file->get()) : Result<SpaceClaim>(file.error());
    if (claim && ledger_.note(key, *claim)) asking.push_back(&job);
  }
  for (Job* job : asking) answer_claim(*job);
  if (!ledger_.empty()) {
    claims_timer_ = at_.loop.after(k_claim_poll, [this] { attend_claims(); });
  }
}

void Jobs::answer_claim(Job& job) {
  const JobKey key = job.record.key();
  const SpaceAnswer answer =
      ledger_.answer(key, free_on(job.disk.get()), at_.config.staging.leave_free_bytes);
  if (answer.granted == 0 && awaits_trash(job, answer.free)) return;
  const auto file = at_.areas.open_status(key, k_answer, O_WRONLY);
  const Status written = file ? write_space_answer(file->get(), answer) : Status(file.error());
  if (!written) {
    log::error(about(job.record), "cannot be told how much it may write: {}", written.error().what);
    return;  // asked again at the next turn
  }
  ledger_.book(key, answer);
  job.lacks_space = answer.granted == 0;
  const Amount promised = ledger_.promised_to(key);
  log::debug(about(job.record), "{} {} and {} inodes of the local disk",
             answer.granted != 0 ? "promised" : "refused more than", human_bytes(promised.bytes),
             promised.inodes);
}

// Trees of jobs that have ended are removed in the background. While that makes room, nobody is
// refused.
bool Jobs::awaits_trash(Job& job, const Amount& free) {
  if (at_.areas.list_trash().empty()) return false;
  const auto now = Clock::now();
  if (!job.freed.since || !fits(free, job.freed.most)) job.freed.since = now;
  job.freed.most = larger(job.freed.most, free);
  return now - *job.freed.since < std::chrono::seconds(at_.config.staging.trash_wait_s);
}

}  // namespace nodestage
