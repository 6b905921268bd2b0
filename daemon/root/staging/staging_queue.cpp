#include "daemon/root/staging/staging_queue.hpp"

#include <algorithm>
#include <utility>

namespace nodestage {

void FairQueue::push(const JobKey& job, std::uint32_t uid) {
  const auto is_job = [&job](const Waiting& waiting) { return waiting.job == job; };
  if (std::none_of(jobs_.begin(), jobs_.end(), is_job)) jobs_.push_back({job, uid});
}

void FairQueue::erase(const JobKey& job) {
  std::erase_if(jobs_, [&job](const Waiting& waiting) { return waiting.job == job; });
}

std::optional<JobKey> FairQueue::next(const UserSlots& places, std::size_t limit) const {
  const Waiting* best = nullptr;
  std::size_t fewest = limit;
  for (const Waiting& waiting : jobs_) {
    const auto has = places.find(waiting.uid);
    const std::size_t count = has == places.end() ? 0 : has->second;
    if (count >= fewest) continue;
    fewest = count;
    best = &waiting;
  }
  if (best == nullptr) return {};
  return best->job;
}

// A user's first job counts with the user's places now, the second with one more, and so on.
std::size_t FairQueue::ahead_of(const JobKey& job, const UserSlots& places) const {
  UserSlots rounds = places;
  std::vector<std::pair<std::size_t, JobKey>> turns;
  for (const Waiting& waiting : jobs_) turns.emplace_back(rounds[waiting.uid]++, waiting.job);
  std::stable_sort(turns.begin(), turns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto own = std::find_if(turns.begin(), turns.end(),
                                [&job](const auto& turn) { return turn.second == job; });
  return static_cast<std::size_t>(own - turns.begin());
}

void StagingQueue::push(const JobKey& job, std::uint32_t uid) {
  waiting_.push(job, uid);
  go_on();
}

void StagingQueue::go_on() {
  if (is_going_on_) return;  // the loop further up the stack takes what is free by now
  is_going_on_ = true;
  while (places_.size() < deps_.config.staging.max_jobs) {
    const auto next = waiting_.next(places_by_user(), places_of_one_user());
    if (!next) break;
    waiting_.erase(*next);
    take_turn(*next);
  }
  is_going_on_ = false;
}

void StagingQueue::take_turn(const JobKey& job) {
  const JobRecord* record = deps_.table.find(job);
  if (record == nullptr || record->state != JobState::queued || record->ended) return;
  take_place(job, record->begin.uid);
  deps_.events.done(job, Fact::turn);
}

std::size_t StagingQueue::ahead_of(const JobKey& job) const {
  return places_.size() + waiting_.ahead_of(job, places_by_user());
}

UserSlots StagingQueue::places_by_user() const {
  UserSlots places;
  for (const auto& [job, uid] : places_) ++places[uid];
  return places;
}

// By default one place is left for others.
std::size_t StagingQueue::places_of_one_user() const {
  const auto& staging = deps_.config.staging;
  if (staging.max_jobs_per_user != 0) return staging.max_jobs_per_user;
  return std::max<std::uint64_t>(staging.max_jobs, 2) - 1;
}

}  // namespace nodestage
