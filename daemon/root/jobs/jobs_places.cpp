// The places among staging.max_jobs: who has them.
#include <algorithm>

#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {

UserPlaces Jobs::places_by_user() const {
  UserPlaces places;
  for (const auto& [key, job] : jobs_) {
    if (job.worker && job.record.state != JobState::staging_out) ++places[job.record.begin.uid];
  }
  return places;
}

std::size_t Jobs::staging_now() const {
  std::size_t count = 0;
  for (const auto& [uid, places] : places_by_user()) count += places;
  return count;
}

// By default one place is left for others.
std::size_t Jobs::places_of_one_user() const {
  const auto& staging = at_.config.staging;
  if (staging.max_jobs_per_user != 0) return staging.max_jobs_per_user;
  return std::max<std::uint64_t>(staging.max_jobs, 2) - 1;
}

}  // namespace nodestage
