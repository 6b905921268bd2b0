// FairQueue: whose turn it is to stage. Next is a job of the user with the fewest places; among
// those, the one that came first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/root/basis/areas.hpp"

namespace nodestage {

using UserPlaces = std::map<std::uint32_t, std::size_t>;  // uid → its jobs that stage now

class FairQueue {
 public:
  // Does nothing for a job that is in it.
  void push(const JobKey& job, std::uint32_t uid);
  void erase(const JobKey& job);
  [[nodiscard]] bool empty() const { return jobs_.empty(); }

  // Returns the next one, unless every user who waits has `limit` places already.
  [[nodiscard]] std::optional<JobKey> next(const UserPlaces& places, std::size_t limit) const;

  // Returns how many that wait come before it, if all that stage now keep their places.
  [[nodiscard]] std::size_t ahead_of(const JobKey& job, const UserPlaces& places) const;

 private:
  struct Waiting {
    JobKey job;
    std::uint32_t uid;
  };
  [[nodiscard]] std::vector<JobKey> in_turn(const UserPlaces& places) const;
  std::vector<Waiting> jobs_;  // in the order in which they came
};

}  // namespace nodestage
