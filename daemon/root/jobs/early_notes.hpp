// EarlyNotes: notes about jobs whose prolog has not run here yet. The newest of each node is kept,
// within bounds: what nodestage-peer passes on should be from root of another node, but can be
// forged.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/peer_note.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

class EarlyNotes {
 public:
  explicit EarlyNotes(const Loop& loop) : loop_(loop) {}

  void keep(const PeerNote& note);
  // Returns those of a job, and no longer keeps them.
  std::vector<PeerNote> take(const JobKey& key);

 private:
  struct Early {
    PeerNote note;
    std::size_t bytes = 0;
    Clock::time_point came{};
  };
  void drop_old();

  const Loop& loop_;
  std::map<std::pair<JobKey, std::string>, Early> notes_;  // by sender
  std::size_t bytes_ = 0;
};

}  // namespace nodestage
