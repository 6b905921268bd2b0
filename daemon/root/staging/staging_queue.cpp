#include "daemon/root/staging/staging_queue.hpp"

#include <algorithm>

namespace nodestage {

void StagingQueue::push(const JobKey& job, std::uint32_t uid) {
  waiting_.push(job, uid);
  go_on();
}

void StagingQueue::go_on() {
  if (is_going_on_) return;  // the loop further up the stack takes what is free by now
  is_going_on_ = true;
  while (places_.size() < config_.staging.max_jobs) {
    const auto next = waiting_.next(places_by_user(), places_of_one_user());
    if (!next) break;
    waiting_.erase(*next);
    start_(*next);
  }
  is_going_on_ = false;
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

}  // namespace nodestage
