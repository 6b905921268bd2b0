// SpaceDesk: room on the local disk. Workers that stage ask for it in their status files, one by
// one as they learn how much they need; each is answered in a file that the daemon alone writes
// (common/wire/space_claim.hpp). What has been promised to whom is in the ledger.
#pragma once

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
  SpaceDesk(Loop& loop, const Config& config, const Areas& areas)
      : loop_(loop), config_(config), areas_(areas) {}

  // Before a worker starts: a file that says nothing yet, for it to read and the desk to write.
  [[nodiscard]] Result<Fd> make_answer_file(const JobKey& key) const;
  // A worker stages from now on. `directory`, the job's, is kept: what a user mounts over it later
  // is not asked for its space.
  void open(const JobKey& key, Subject subject, Fd directory);
  // It does so no more. Whether its last claim was refused.
  bool close(const JobKey& key);

  // What the job was promised and has not written.
  [[nodiscard]] Amount promised_to(const JobKey& key) const { return ledger_.promised_to(key); }

 private:
  // While a refusal waits for the trash to be emptied.
  struct Freed {
    std::optional<Clock::time_point> since;  // there was as much free space as now
    Amount most;
  };
  struct Customer {
    Subject subject;
    Fd disk;
    Freed freed;
    bool was_refused = false;
  };
  void attend_all();
  void attend(const JobKey& key, Customer& customer);
  bool awaits_trash(Customer& customer, const Amount& free) const;

  Loop& loop_;
  const Config& config_;
  const Areas& areas_;
  SpaceLedger ledger_;
  std::map<JobKey, Customer> customers_;
  std::optional<Loop::TimerId> timer_;
};

}  // namespace nodestage
