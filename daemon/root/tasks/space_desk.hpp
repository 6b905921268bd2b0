// SpaceDesk: admits workers to space on the local disk. Workers that stage ask for it in their
// status files, step by step as they learn how much they need; each gets its answers in a file that
// only the daemon writes (common/wire/space_claim.hpp). The ledger decides what each is promised
// and notes it. A claim that lacks only what others were promised waits (`staging.space_wait`).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/tasks/space_ledger.hpp"

namespace nodestage {

class SpaceDesk {
 public:
  // Entries of the cache that no job uses.
  struct Unused {
    std::function<Amount(int disk_fd)> on_disk;  // at most so much of it is on that file system
    std::function<bool()> remove_one;            // moves one to the trash; false if there is none
  };
  SpaceDesk(Loop& loop, const Config& config, const Areas& areas, Unused unused)
      : loop_(loop), config_(config), areas_(areas), unused_(std::move(unused)) {}

  // Makes the file of a worker that is about to start, in which the desk answers it.
  [[nodiscard]] Result<Fd> make_answer_file(const JobKey& key) const;
  // Starts granting space to the job's worker. `directory`, the job's, stays open: the space of
  // what a user mounts over it later does not count.
  // `task`: of the worker that claims.
  void open(const JobKey& key, Subject subject, Fd directory, WorkerTask task = WorkerTask::stage);
  // Stops granting space. Returns whether the worker's last claim was refused.
  bool close(const JobKey& key);

  // Returns what the job was promised and has not written.
  [[nodiscard]] Amount promised_to(const JobKey& key) const { return ledger_.promised_to(key); }
  // Returns what a job waits for because others were promised it, such as "1.0 GiB of local disk,
  // …"; "" for any other.
  [[nodiscard]] std::string lack_of(const JobKey& key) const;

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
    WorkerTask task;
    bool with_spare = false;  // its last claim
    bool made_room = false;
    bool was_refused = false;
    std::optional<Clock::time_point> lacks_since;  // space that others were promised
  };
  void attend_all();
  void attend(const JobKey& key, Customer& customer);
  void review_all();
  Status put_answer(const JobKey& key, const SpaceAnswer& answer);
  [[nodiscard]] SpaceLedger::Terms terms_for(const Customer& customer) const;
  bool awaits_room(const JobKey& key, Customer& customer, const SpaceAnswer& refusal) const;
  bool awaits_promises(Customer& customer) const;
  [[nodiscard]] bool is_waiting_for_trash(Customer& customer, const Amount& free) const;

  Loop& loop_;
  const Config& config_;
  const Areas& areas_;
  Unused unused_;
  SpaceLedger ledger_;
  std::map<JobKey, Customer> customers_;
  std::optional<Loop::TimerId> timer_;
  Clock::time_point reviewed_{};
};

}  // namespace nodestage
