// SpaceDesk: admits workers to space on the local disk. Workers that stage ask for it in their
// status files, step by step as they learn how much they need; each gets its answers in a file that
// only the daemon writes (common/wire/space_claim.hpp). The ledger notes what each was promised.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/tasks/space_ledger.hpp"

namespace nodestage {

class SpaceDesk {
 public:
  // What is kept and nobody uses.
  struct Unused {
    std::function<Amount(int disk_fd)> on_disk;  // at most so much of it is on that file system
    std::function<bool()> remove_one;            // moves one to the trash; false if there is none
  };
  SpaceDesk(Loop& loop, const Config& config, const Areas& areas, Unused unused)
      : loop_(loop), config_(config), areas_(areas), unused_(std::move(unused)) {}

  // Before a worker starts: a file without an answer yet, which it reads and the desk writes.
  [[nodiscard]] Result<Fd> make_answer_file(const JobKey& key) const;
  // A worker stages from now on. `directory`, the job's, stays open: the space of what a user
  // mounts over it later does not count.
  void open(const JobKey& key, Subject subject, Fd directory);
  // It no longer does. Returns whether its last claim was refused.
  bool close(const JobKey& key);

  // What the job was promised and has not written.
  [[nodiscard]] Amount promised_to(const JobKey& key) const { return ledger_.promised_to(key); }

 private:
  // While a refusal waits for the trash to be emptied.
  struct Freed {
    std::optional<Clock::time_point> since;  // the free space last grew then
    Amount most;
  };
  struct Customer {
    Subject subject;
    Fd disk;
    Freed freed;
    bool made_room = false;
    bool was_refused = false;
  };
  void attend_all();
  void attend(const JobKey& key, Customer& customer);
  bool awaits_room(const JobKey& key, Customer& customer, const SpaceAnswer& refusal) const;
  [[nodiscard]] bool is_waiting_for_trash(Customer& customer, const Amount& free) const;

  Loop& loop_;
  const Config& config_;
  const Areas& areas_;
  Unused unused_;
  SpaceLedger ledger_;
  std::map<JobKey, Customer> customers_;
  std::optional<Loop::TimerId> timer_;
};

}  // namespace nodestage
