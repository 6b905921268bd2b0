// Turns: runs background work, for each user a limited number of pieces at once. The rest waits in
// order; no user's work waits for another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

class Turns {
 public:
  enum class Begun {
    yes,     // until end()
    no,      // nothing is left to do, or it cannot be done now
    failed,  // others cannot start either: they wait for a second
  };
  using Begin = std::function<Begun()>;

  Turns(Loop& loop, std::size_t of_one_user) : loop_(loop), of_one_user_(of_one_user) {}

  // Calls `begin` once, now or when it is the key's turn; never for a key that waits or works.
  void ask(std::uint32_t uid, const JobKey& key, Begin begin);
  // Takes over work that an earlier daemon started.
  void take(std::uint32_t uid, const JobKey& key) { users_[uid].at_work.insert(key); }
  // Ends the work, and starts the next. Does nothing for a key without work.
  void end(std::uint32_t uid, const JobKey& key);
  // Takes a key that waits out of the queue. Returns whether it was there.
  bool leave(std::uint32_t uid, const JobKey& key);
  [[nodiscard]] bool is_waiting(std::uint32_t uid, const JobKey& key) const;

 private:
  struct User {
    std::deque<std::pair<JobKey, Begin>> queue;
    std::set<JobKey> waiting;  // those in the queue
    std::set<JobKey> at_work;
    bool is_paused = false;
    bool is_looked_at = false;  // by a go_on() further up the stack
  };
  void go_on(std::uint32_t uid);

  Loop& loop_;
  std::size_t of_one_user_;
  std::map<std::uint32_t, User> users_;
};

}  // namespace nodestage
