#include "daemon/worker/budget/space.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_poll{10};
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

constexpr std::uint64_t k_space_block = 4096;
struct Advice {
  std::string_view room;   // the disk is too small or full
  std::string_view quota;  // the user's quota on it is used up
  std::string_view later;  // others take the room that is missing
};
constexpr Advice k_to_job{
    "Ask for a node with more local disk (--tmp=SIZE), stage less (include=, exclude=), or use the "
    "data where it is",
    "Stage less (include=, exclude=), or use the data where it is; your other jobs on that node "
    "and results that could not be delivered (nodestage held) count against that quota, too. If "
    "it is too small for a job, ask your site's support",
    "Submit it again when other jobs on that node have ended, ask for a node with more local disk "
    "(--tmp=SIZE) or for a whole node (--exclusive), or stage less (include=, exclude=)"};
constexpr Advice k_to_run{
    "Name a directory on another disk with --tmpdir=DIR, stage less (include=, exclude=), or use "
    "the data where it is",
    "Name a directory on another disk with --tmpdir=DIR, remove what you do not need, or stage "
    "less (include=, exclude=)",
    "Name a directory on another disk with --tmpdir=DIR, try again when others have freed some of "
    "this one, or stage less (include=, exclude=)"};

const Advice& advice_to(Asker asker) { return asker == Asker::job ? k_to_job : k_to_run; }

// "30.0 MiB are promised to 2 other jobs that stage there"
std::string promise_text(const std::string& amount, std::uint32_t others) {
  return amount + " are promised to " +
         (others == 1 ? "another job that stages there"
                      : human_count(others) + " other jobs that stage there");
}

std::string list_of(const std::string& first, const std::string& second) {
  if (first.empty() || second.empty()) return first + second;
  return first + " and " + second;
}

std::string bytes_text(const std::string& node, const Amount& need, const SpaceAnswer& answer) {
  const std::string promised =
      answer.promised.bytes == 0 ? ""
                                 : promise_text(human_bytes(answer.promised.bytes), answer.others);
  const auto [free, leave_free] = human_bytes_apart(answer.free.bytes, answer.leave_free);
  const std::string kept = answer.leave_free == 0 ? "" : leave_free + " must stay free";
  const std::string parts = list_of(promised, kept);
  return human_bytes(need.bytes) + " of local disk, but node " + node + " has " + free + " free" +
         (parts.empty() ? "" : ", of which " + parts);
}

std::string inodes_text(const std::string& node, const Amount& need, const SpaceAnswer& answer) {
  const std::string promised =
      answer.promised.inodes == 0
          ? ""
          : ", of which " + promise_text(human_count(answer.promised.inodes), answer.others);
  return human_count(need.inodes) + " files and directories (inodes) on local disk, but node " +
         node + " has " + human_count(answer.free.inodes) + " free" + promised;
}

}  // namespace

Allowance::Allowance(const Deps& deps, const std::atomic<bool>& stop)
    : deps_(deps), is_answered_(is_regular(deps.answer_fd)), stop_(stop) {
  if (is_answered_) log_fault(write_space_written(deps_.status_fd, {}));
}

Status Allowance::ask(const Need& need, const std::string& subject, Spare spare) {
  const std::lock_guard lock(mutex_);
  const Amount kept = smaller(need_, limit());  // reserved before
  const Amount least = larger(kept, taken()) + need.least;
  return extend(larger(need_, taken()) + need.expected, least, {subject, need.least, spare});
}

void Allowance::give_back(const Amount& amount) {
  const std::lock_guard lock(mutex_);
  need_ = larger(need_ - amount, taken());
  set_limit(smaller(need_, limit()));
  if (is_answered_) log_fault(write_space_claim(deps_.status_fd, {serial_, need_, {}, {}, 0}));
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
  log_fault(write_space_written(deps_.status_fd, written()));
}

void Allowance::removed(std::uint64_t bytes) {
  if (is_answered_) return;
  const std::lock_guard lock(mutex_);
  checked_ = less(checked_, bytes);
  taken_bytes_ -= bytes;
  written_bytes_ -= bytes;
  need_ = larger(need_ - Amount{bytes, 0}, taken());
  set_limit(smaller(need_, limit()));
}

// The daemon may have changed what is admitted since it was asked: it takes back what a slow worker
// has not written, and gives one that writes more.
Status Allowance::catch_up() {
  if (is_answered_) {
    const auto answer = read_space_answer(deps_.answer_fd);
    if (answer && answer->serial == serial_) set_limit(smaller(need_, answer->admitted));
  }
  const Amount now = taken();
  if (!fits(now, limit())) {
    const Amount step = larger(k_step, {now.bytes / 2, now.inodes / 2});
    TRY(extend(larger(need_, now + step), now, {wants_more(), now - written()}));
  }
  return taken_bytes_ > checked_ ? check_disk() : Status();
}

// What is left of the share counts as the file system's space.
Amount Allowance::free() const {
  const Amount free = free_on(deps_.dir_fd);
  if (!is_of_memory()) return free;
  return {std::min(free.bytes, less(deps_.memory.most, written_bytes_)), free.inodes};
}

std::string Allowance::wants_more() const {
  return "the job has written " + human_bytes(written_bytes_) + " and needs at least another";
}

// Others write to the disk, too: the running jobs.
Status Allowance::check_disk() {
  const std::uint64_t now = taken_bytes_;
  const std::uint64_t on_its_way = now - std::min<std::uint64_t>(now, written_bytes_);
  const std::uint64_t free = this->free().bytes;
  if (is_of_memory() && free < on_its_way)
    return too_little_memory(wants_more(), deps_.node, on_its_way, free, deps_.memory);
  if (free < more(deps_.leave_free, on_its_way) && give_up_spare()) return check_disk();
  if (free < more(deps_.leave_free, on_its_way))
    return disk_is_full(deps_.node, free, deps_.leave_free, asker());
  checked_ = now + std::min(k_check_bytes, free - deps_.leave_free - on_its_way);
  return {};
}

Status Allowance::extend(const Amount& need, const Amount& least, const Words& words) {
  const SpaceClaim claim{++serial_, larger(need, least), least, written(),
                         words.spare == Spare::included ? 1U : 0U};
  TRY_ASSIGN(const SpaceAnswer answer, answer_to(claim));
  if (answer.granted == 0 && give_up_spare()) return extend(need, least, words);
  if (answer.granted == 0 && is_of_memory())
    return too_little_memory(words.subject, deps_.node, words.need.bytes, answer.free.bytes,
                             deps_.memory);
  if (answer.granted == 0) {
    return too_little_space(words.subject, deps_.node, words.need, least - claim.written, answer,
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
    disk.leave_free = deps_.leave_free;
    return decide(claim, limit(), disk);
  }
  TRY(write_space_written(deps_.status_fd, claim.written));
  TRY(write_space_claim(deps_.status_fd, claim));
  for (;;) {
    TRY_ASSIGN(const SpaceAnswer answer, read_space_answer(deps_.answer_fd));
    if (answer.serial == claim.serial) return read_space_answer(deps_.answer_fd);
    if (stop_) return stopped();
    std::this_thread::sleep_for(k_poll);
  }
}

void Allowance::set_limit(const Amount& limit) {
  limit_bytes_ = limit.bytes;
  limit_inodes_ = limit.inodes;
}

std::uint64_t in_blocks(std::uint64_t bytes) {
  return more(bytes, k_space_block - 1) / k_space_block * k_space_block;
}

std::uint64_t BlockCount::add(std::uint64_t offset, std::uint64_t size) {
  if (size == 0) return 0;
  const std::uint64_t begin = offset / k_space_block * k_space_block;
  const bool is_shared = begin + k_space_block == end_;
  end_ = in_blocks(offset + size);
  return end_ - begin - (is_shared ? k_space_block : 0);
}

Status Space::will_write(std::uint64_t bytes) {
  const std::uint64_t before = in_blocks(file_bytes_);
  file_bytes_ += bytes;
  return will_take({in_blocks(file_bytes_) - before, 0});
}

Status Space::will_take(const Amount& amount) {
  allowance_.wrote(pending_);
  pending_ = amount;
  return take(amount);
}

Status Space::take(const Amount& amount) {
  taken_->bytes += amount.bytes;
  taken_->inodes += amount.inodes;
  return allowance_.take(amount);
}

void Space::settle(const Amount& expected) {
  allowance_.wrote(std::exchange(pending_, {}));
  allowance_.give_back(expected - Amount{taken_->bytes, taken_->inodes});
}

Error Space::explain(std::string_view name, int code) const {
  const std::string subject =
      "cannot write '" + shown(name) + "' on node " + allowance_.node() + ": ";
  const Advice& advice = advice_to(allowance_.asker());
  if (code == ENOSPC && allowance_.is_of_memory())
    return fault(
        code, subject + "the file system for data in memory is full: data of other jobs lie there",
        "Submit it again when other jobs on that node have ended, or leave out in=memory: "
        "the data go to the node's local disk then");
  if (code == ENOSPC) {
    const Amount free = free_on(dir_fd_);
    const std::string left =
        free.inodes == 0 ? "no inodes (files) are left" : human_bytes(free.bytes) + " are free";
    return fault(code, subject + "the local disk is full, " + left, advice.room);
  }
  if (code == EDQUOT)
    return fault(code, subject + "your quota on the local disk is used up", advice.quota);
  const char* other =
      "This is the node's local disk; if it happens again, tell your site's support";
  if (code == EMFILE) other = k_raise_open_files;
  if (code == EFBIG)
    other =
        "The size of a file is limited, by `ulimit -f` or by the file system: raise the limit, or "
        "stage the file in parts";
  return fault(code, subject + std::strerror(code), other);
}

Error too_little_space(const std::string& subject, const std::string& node, const Amount& need,
                       const Amount& missing, const SpaceAnswer& answer, Asker asker) {
  const Amount left = answer.free - Amount{answer.leave_free, 0};
  const bool lacks_bytes = missing.bytes > (left - answer.promised).bytes;
  const std::string text =
      lacks_bytes ? bytes_text(node, need, answer) : inodes_text(node, need, answer);
  const Advice& advice = advice_to(asker);
  return fault(ENOSPC, subject + " " + text, fits(missing, left) ? advice.later : advice.room);
}

// Where the share has room, the file system has none: other jobs have data there, too.
Error too_little_memory(const std::string& subject, const std::string& node, std::uint64_t need,
                        std::uint64_t free, const MemoryShare& share) {
  const std::string limit = "in=memory may take " + human_bytes(share.most) +
                            " in all: " + std::to_string(share.percent) + "% of the " +
                            human_bytes(share.of) + " that the job has on node " + node;
  const std::string left =
      free < share.most ? ", of which " + human_bytes(free) + " are left there" : "";
  const std::uint64_t wanted = more(need, less(share.most, free));
  const std::uint64_t least = wanted / share.percent * 100 + k_space_block * 100;
  const std::uint64_t mebibytes = (least >> 20) + 1;
  return fault(ENOSPC, subject + " " + human_bytes(need) + " of memory, but " + limit + left,
               "Ask for more memory (--mem=" + std::to_string(mebibytes) +
                   "M or more), stage less (include=, exclude=), or leave out in=memory: the data "
                   "go to the node's local disk then");
}

Error disk_is_full(const std::string& node, std::uint64_t free, std::uint64_t leave_free,
                   Asker asker) {
  const auto [left, kept] = human_bytes_apart(free, leave_free);
  return fault(ENOSPC,
               "the local disk of node " + node + " is full: " + left + " are left, and " + kept +
                   " must stay free",
               advice_to(asker).later);
}

}  // namespace nodestage
