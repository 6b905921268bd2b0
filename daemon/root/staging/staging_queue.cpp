#include "daemon/root/staging/staging_queue.hpp"

#include <unistd.h>

#include <algorithm>

#include "daemon/root/basis/log.hpp"

namespace nodestage {

void StagingQueue::push(const JobKey& job, std::uint32_t uid) {
  waiting_.push(job, uid);
  go_on();
}

void StagingQueue::go_on() {
  while (places_.size() < config_.staging.max_jobs) {
    const auto next = waiting_.next(places_by_user(), places_of_one_user());
    if (!next) break;
    waiting_.erase(*next);
    start_(*next);
  }
  share_rate();
}

std::size_t StagingQueue::ahead_of(const JobKey& job) const {
  return places_.size() + waiting_.ahead_of(job, places_by_user());
}

UserPlaces StagingQueue::places_by_user() const {
  UserPlaces places;
  for (const auto& [job, uid] : places_) ++places[uid];
  return places;
}

// By default one place is left for others.
std::size_t StagingQueue::places_of_one_user() const {
  const auto& staging = config_.staging;
  if (staging.max_jobs_per_user != 0) return staging.max_jobs_per_user;
  return std::max<std::uint64_t>(staging.max_jobs, 2) - 1;
}

// Every staging worker gets the same share of the node's rate.
void StagingQueue::share_rate() const {
  if (rate_fd_ < 0) return;
  const std::uint64_t rate = config_.read.max_rate_bytes;
  const std::uint64_t share =
      rate == 0 ? 0 : std::max<std::uint64_t>(1, rate / std::max<std::size_t>(1, places_.size()));
  if (::pwrite(rate_fd_, &share, sizeof share, 0) != sizeof share)
    log::error("the rate file cannot be written");
}

}  // namespace nodestage
