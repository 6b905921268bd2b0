#include "daemon/root/shares/rate_shares.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_look_interval{1};
constexpr std::chrono::seconds k_still{5};  // without progress, beside the time of one step
constexpr std::uint64_t k_largest_step = 16ULL << 20;

// A slow rate makes long pauses.
std::chrono::seconds patience_at(std::uint64_t share) {
  return k_still + std::chrono::seconds(k_largest_step / std::max<std::uint64_t>(share, 1));
}

}  // namespace

// One that stands still, and others of its user with it, can begin again at once.
std::uint64_t rate_share(std::uint64_t rate, const Mover& mover, const std::vector<Mover>& all) {
  if (rate == 0) return 0;
  std::set<uid_t> users{mover.uid};
  std::uint64_t of_user = 0;
  for (const Mover& other : all) {
    if (other.moves) users.insert(other.uid);
    if (other.uid == mover.uid && (other.moves || !mover.moves)) ++of_user;
  }
  return std::max<std::uint64_t>(1, rate / users.size() / std::max<std::uint64_t>(1, of_user));
}

Result<Fd> RateShares::join(const JobKey& key, WorkerTask task, uid_t uid) {
  const auto kind = traits_of(task).rate;
  if (!kind) return Fd();
  TRY_ASSIGN(Fd file, files_.rate_file(key, *kind));
  const Which which{*kind, key};
  Job& job = jobs_[which];
  ++job.workers;
  job.mover = {uid, true};
  job.moved_at = loop_.now();
  job.share.reset();  // the file may be another daemon's
  share();
  if (!timer_) timer_ = loop_.after(k_look_interval, [this] { look(); });
  return file;
}

void RateShares::leave(const JobKey& key, WorkerTask task) {
  const auto kind = traits_of(task).rate;
  const auto found = kind ? jobs_.find({*kind, key}) : jobs_.end();
  if (found == jobs_.end()) return;
  if (--found->second.workers == 0) jobs_.erase(found);
  share();
}

std::uint64_t RateShares::rate_of(RateKind kind) const {
  return kind == RateKind::read ? config_.read.max_rate_bytes : config_.stageout.max_rate_bytes;
}

// What came from other nodes costs nothing of the rate.
std::uint64_t RateShares::moved_by(const Which& which) const {
  const auto& [kind, key] = which;
  if (kind == RateKind::read) {
    const Work work = work_of(files_.status(key, WorkerTask::stage));
    return work.bytes_read - std::min(work.bytes_read, work.bytes_from_nodes);
  }
  return work_of(files_.status(key, WorkerTask::push)).bytes_written +
         work_of(files_.status(key, WorkerTask::stage_out)).bytes_written;
}

void RateShares::look() {
  timer_.reset();
  for (auto& [which, job] : jobs_)
    if (rate_of(which.first) != 0) look_at(which, job);
  share();
  if (!jobs_.empty()) timer_ = loop_.after(k_look_interval, [this] { look(); });
}

void RateShares::look_at(const Which& which, Job& job) {
  const std::uint64_t moved = moved_by(which);
  if (moved != job.moved) job.moved_at = loop_.now();
  job.moved = moved;
  job.mover.moves = loop_.now() - job.moved_at < patience_at(job.share.value_or(1));
}

void RateShares::share() {
  std::map<RateKind, std::vector<Mover>> movers;
  for (const auto& [which, job] : jobs_) movers[which.first].push_back(job.mover);
  for (auto& [which, job] : jobs_)
    put(which, job, rate_share(rate_of(which.first), job.mover, movers[which.first]));
}

void RateShares::put(const Which& which, Job& job, std::uint64_t share) {
  if (job.share == share) return;
  const auto file = files_.rate_file(which.second, which.first);
  if (file && ::pwrite(file->get(), &share, sizeof share, 0) == sizeof share) {
    job.share = share;
  } else {
    log::error("the file with the rate of job {} cannot be written", to_text(which.second));
  }
}

}  // namespace nodestage
