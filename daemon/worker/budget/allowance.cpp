#include "daemon/worker/budget/allowance.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/budget/space.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_poll{10};
constexpr std::uint64_t k_mebibyte = 1024 * 1024;
constexpr std::uint64_t k_report_bytes = k_mebibyte;
constexpr std::uint64_t k_check_bytes = 64 * k_mebibyte;
// If an item takes more than expected, more is requested in steps of at least this.
constexpr Amount k_step{64 * k_mebibyte, 1024};

bool is_regular(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

void log_fault(const Status& status) {
  if (!status) log_line(status.error().text());
}

}  // namespace

Allowance::Allowance(const Places& places, const std::atomic<bool>& stop)
    : at_(places), is_answered_(is_regular(places.answer_fd)), stop_(stop) {
  if (is_answered_) log_fault(write_space_written(at_.status_fd, {}));
}

Status Allowance::ask(const Need& need, const std::string& subject, Spare spare) {
  const std::lock_guard lock(mutex_);
  const Amount kept = smaller(need_, {limit_bytes_, limit_inodes_});  // reserved before
  const Amount least = larger(kept, taken()) + need.least;
  return extend(larger(need_, taken()) + need.expected, least, {subject, need.least, spare});
}

void Allowance::give_back(const Amount& amount) {
  const std::lock_guard lock(mutex_);
  need_ = larger(need_ - amount, taken());
  set_limit(smaller(need_, {limit_bytes_, limit_inodes_}));
  if (is_answered_) log_fault(write_space_claim(at_.status_fd, {serial_, need_, {}, {}, 0}));
}

Status Allowance::take(const Amount& amount) {
  const std::uint64_t bytes = taken_bytes_ += amount.bytes;
  const std::uint64_t inodes = taken_inodes_ += amount.inodes;
  if (bytes <= limit_bytes_ && inodes <= limit_inodes_ && bytes <= checked_) return {};
  const std::lock_guard lock(mutex_);
  return catch_up();
}

void Allowance::wrote(const Amount& amount) {
  written_inodes_ += amount.inodes;
  const std::uint64_t bytes = written_bytes_ += amount.bytes;
  if (!is_answered_ || bytes < reported_ + k_report_bytes) return;
  reported_ = bytes;
  log_fault(write_space_written(at_.status_fd, written()));
}

// The daemon may have changed what is admitted since it was asked: it takes back what a slow worker
// has not written, and gives one that writes more.
Status Allowance::catch_up() {
  if (is_answered_) {
    const auto answer = read_space_answer(at_.answer_fd);
    if (answer && answer->serial == serial_) set_limit(smaller(need_, answer->admitted));
  }
  const Amount now = taken();
  if (!fits(now, {limit_bytes_, limit_inodes_})) {
    const Amount step = larger(k_step, {now.bytes / 2, now.inodes / 2});
    TRY(extend(
        larger(need_, now + step), now,
        {"the job has written " + human_bytes(written_bytes_) + " and needs at least another",
         now - written()}));
  }
  return taken_bytes_ > checked_ ? check_disk() : Status();
}

// What is left of the share counts as the file system's space.
Amount Allowance::free() const {
  const Amount free = free_on(at_.dir_fd);
  if (!is_of_memory()) return free;
  return {std::min(free.bytes, less(at_.memory.most, written_bytes_)), free.inodes};
}

// Others write to the disk, too: the running jobs.
Status Allowance::check_disk() {
  const std::uint64_t now = taken_bytes_;
  const std::uint64_t on_its_way = now - std::min<std::uint64_t>(now, written_bytes_);
  const std::uint64_t free = this->free().bytes;
  if (is_of_memory() && free < on_its_way)
    return too_little_memory(
        "the job has written " + human_bytes(written_bytes_) + " and needs at least another",
        at_.node, on_its_way, free, at_.memory);
  if (free < more(at_.leave_free, on_its_way) && give_up_spare()) return check_disk();
  if (free < more(at_.leave_free, on_its_way))
    return disk_is_full(at_.node, free, at_.leave_free, asker());
  checked_ = now + std::min(k_check_bytes, free - at_.leave_free - on_its_way);
  return {};
}

Status Allowance::extend(const Amount& need, const Amount& least, const Words& words) {
  const SpaceClaim claim{++serial_, larger(need, least), least, written(),
                         words.spare == Spare::included ? 1U : 0U};
  TRY_ASSIGN(const SpaceAnswer answer, answer_to(claim));
  if (answer.granted == 0 && give_up_spare()) return extend(need, least, words);
  if (answer.granted == 0 && is_of_memory())
    return too_little_memory(words.subject, at_.node, words.need.bytes, answer.free.bytes,
                             at_.memory);
  if (answer.granted == 0) {
    return too_little_space(words.subject, at_.node, words.need, least - claim.written, answer,
                            asker());
  }
  need_ = claim.need;
  set_limit(answer.admitted);
  return {};
}

bool Allowance::give_up_spare() {
  const auto give_up = std::exchange(give_up_spare_, nullptr);
  return give_up && give_up();
}

Result<SpaceAnswer> Allowance::answer_to(const SpaceClaim& claim) {
  if (!is_answered_) {
    Disk disk;
    disk.free = free();
    disk.leave_free = at_.leave_free;
    return decide(claim, {limit_bytes_, limit_inodes_}, disk);
  }
  TRY(write_space_written(at_.status_fd, claim.written));
  TRY(write_space_claim(at_.status_fd, claim));
  for (;;) {
    TRY_ASSIGN(const SpaceAnswer answer, read_space_answer(at_.answer_fd));
    if (answer.serial == claim.serial) return read_space_answer(at_.answer_fd);
    if (stop_) return stopped();
    std::this_thread::sleep_for(k_poll);
  }
}

void Allowance::set_limit(const Amount& limit) {
  limit_bytes_ = limit.bytes;
  limit_inodes_ = limit.inodes;
}

}  // namespace nodestage
