// Records: what the node keeps of jobs that are gone, for `nodestage report`.
//
//   STATE_DIR/records/<job>.<restart>.<uid>.json     a NodeReport (common/wire/node_report.hpp),
//   0600
//
// The oldest go first, beyond records.keep and records.days. A record that cannot be written or
// read is logged, with no other effect. Needs root. Test: tests/unit/test_job_table.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

class Records {
 public:
  // Makes the directory if needed. Borrows the settings.
  Records(const std::string& state_dir, const Config& config);

  // Keeps a report, in place of an earlier one of the same run.
  void keep(const JobKey& key, std::uint32_t uid, const std::string& report);

  // Returns the reports of a job that `uid` may see (root: all).
  [[nodiscard]] std::vector<std::string> find(std::uint32_t job, std::uint32_t uid) const;

  // Removes reports that are too old or too many.
  void trim();

 private:
  struct Entry {
    std::uint32_t uid = 0;
    std::uint64_t written = 0;  // seconds since 1970
  };
  using Entries = std::map<JobKey, Entry>;

  Status open(const std::string& state_dir);
  [[nodiscard]] static std::string name_of(const Entries::value_type& entry);
  Entries::iterator remove(Entries::iterator entry);
  [[nodiscard]] bool is_too_old(const Entry& entry) const;

  const Config& config_;
  std::optional<Fd> directory_;
  Entries entries_;
  int fault_ = 0;  // errno of the last write
};

// Turns: runs background work, for each user a limited number of pieces at once. The rest waits in
// order; no user's work waits for another's. So targets that hang delay only their owner's other
// work, and a thousand pieces of it do not start a thousand processes.
class Turns {
 public:
  enum class Begun {
    yes,     // until end()
    no,      // nothing is left to do, or it cannot be done now
    failed,  // others cannot start either: they wait for a second
  };
  using Begin = std::function<Begun()>;

  explicit Turns(Loop& loop, std::size_t of_one_user = 4)
      : loop_(loop), of_one_user_(of_one_user) {}

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
