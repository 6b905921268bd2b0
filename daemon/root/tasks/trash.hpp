// Trash: removes what lies in the trash area, one tree of an owner at a time, by workers with the
// rights of the tree's owner. Only what such a worker cannot remove (files of other owners:
// subordinate uids of containers), or does not in time, goes to one that is root with three file
// capabilities and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class Trash {
 public:
  Trash(Loop& loop, Areas& areas, Workers& workers, const Config& config)
      : loop_(loop), areas_(areas), workers_(workers), config_(config) {}

  // Starts to remove what is there, for a few owners at a time, who take turns. A tree that cannot
  // be removed is tried again soon, then logged and tried again each minute.
  void sweep();
  // Removes that owner's trees at normal priority, since the space is needed.
  void hurry(std::uint32_t uid) { urgent_.insert(uid); }
  // Tries stuck trees again at once, since what kept them may be gone.
  void look_again();
  // Returns how many trees could not be removed so far.
  [[nodiscard]] std::size_t stuck() const { return logged_.size(); }

 private:
  enum class By { owner, root };
  struct Owner {
    std::deque<TrashEntry> waiting;
    // One that stops (SIGSTOP) its remover delays only its own trees.
    bool is_at_work = false;
  };
  void sweep_later();
  void await_turn(TrashEntry entry);
  void take_turn(std::uint32_t uid);
  void remove(TrashEntry entry);
  void start(const TrashEntry& entry, By by);
  void removed(const TrashEntry& entry, By by, const WorkerEnd& end);
  void is_gone(const TrashEntry& entry);
  void give_up(const TrashEntry& entry, const std::string& why);

  Loop& loop_;
  Areas& areas_;
  Workers& workers_;
  const Config& config_;
  std::map<std::uint32_t, Owner> owners_;  // with trees that wait, or with a remover
  std::deque<std::uint32_t> turns_;        // those for whom no remover works
  std::size_t at_work_ = 0;                // removers
  std::set<std::uint32_t> urgent_;         // owners, until nothing of theirs is left
  std::set<std::uint32_t> halting_;        // owners whose remover came no further: root's own does
  std::vector<TrashEntry> given_up_;       // until the next try of all
  std::set<std::string> failed_;           // names that could not be removed once
  std::set<std::string> logged_;           // names that were logged
  bool is_pausing_ = false;                // until the next try of all
  bool is_sweeping_later_ = false;
};

}  // namespace nodestage
