// Trash: removes what lies in the trash area, one tree of an owner at a time, by workers with the
// rights of the tree's owner. Only what such a worker cannot remove (files of other owners:
// subordinate uids of containers), or does not in time, goes to one that is root with three file
// capabilities and nothing else.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class Trash {
 public:
  Trash(Loop& loop, Areas& areas, Workers& workers, const Config& config)
      : loop_(loop), areas_(areas), workers_(workers), config_(config) {}

  // Starts to remove what is there, for a few owners at a time. A tree that cannot be removed is
  // tried again soon, then logged and tried again each minute.
  void sweep();
  // The space is needed: what is there of that owner's trees is removed at normal priority.
  void hurry(std::uint32_t uid) { urgent_.insert(uid); }
  // What kept trees from being removed may be away by now: they are tried again at once.
  void look_again();
  // Trees that could not be removed so far.
  [[nodiscard]] std::size_t stuck() const;

 private:
  enum class By { owner, root };
  void remove(const TrashEntry& entry, By by);
  void removed(const TrashEntry& entry, By by, const WorkerEnd& end);
  void give_up(const TrashEntry& entry, const std::string& why);

  Loop& loop_;
  Areas& areas_;
  Workers& workers_;
  const Config& config_;
  std::set<std::uint32_t>
      at_work_;  // owners: one that stops (SIGSTOP) its remover delays only its own trees
  std::set<std::uint32_t> urgent_;   // owners, until nothing of theirs is left
  std::set<std::uint32_t> halting_;  // owners whose remover came no further: root's own does
  std::set<std::string> given_up_;   // names, until the next try
  std::set<std::string> failed_;     // names that could not be removed once
  std::set<std::string> told_;       // names that were logged
  bool is_pausing_ = false;          // until the next try of all
};

}  // namespace nodestage
