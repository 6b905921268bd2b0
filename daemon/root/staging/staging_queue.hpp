// StagingQueue: the staging.max_jobs places for jobs that stage: which jobs have one, and which
// comes next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

// FairQueue: whose turn it is to stage. Next is a job of the user with the fewest places; among
// those, the one that came first.
using UserSlots = std::map<std::uint32_t, std::size_t>;  // uid → its jobs that stage now

class FairQueue {
 public:
  // Does nothing for a job that is in it.
  void push(const JobKey& job, std::uint32_t uid);
  void erase(const JobKey& job);

  // Returns the next one, unless every user who waits has `limit` places already.
  [[nodiscard]] std::optional<JobKey> next(const UserSlots& places, std::size_t limit) const;

  // Returns how many that wait come before it, if all that stage now keep their places.
  [[nodiscard]] std::size_t ahead_of(const JobKey& job, const UserSlots& places) const;

 private:
  struct Waiting {
    JobKey job;
    std::uint32_t uid;
  };
  std::vector<Waiting> jobs_;  // in the order in which they came
};

class StagingQueue {
 public:
  explicit StagingQueue(const JobDeps& deps) : deps_(deps) {}

  // Adds a job. Reports `turn` when it has a place, unless it is no longer queued.
  void push(const JobKey& job, std::uint32_t uid);
  void erase(const JobKey& job) { waiting_.erase(job); }
  // Gives the jobs their turn for which there are places now.
  void go_on();

  void take_place(const JobKey& job, std::uint32_t uid) { places_[job] = uid; }
  void leave_place(const JobKey& job) { places_.erase(job); }
  [[nodiscard]] bool has_place(const JobKey& job) const { return places_.contains(job); }

  // Returns how many come before it, including those that stage now.
  [[nodiscard]] std::size_t ahead_of(const JobKey& job) const;

 private:
  void take_turn(const JobKey& job);
  [[nodiscard]] UserSlots places_by_user() const;
  [[nodiscard]] std::size_t places_of_one_user() const;

  JobDeps deps_;
  FairQueue waiting_;
  std::map<JobKey, std::uint32_t> places_;  // → uid
  bool is_going_on_ = false;
};

}  // namespace nodestage
