// HeldResults: results that could not be delivered, from the failure to their delivery, recovery or
// expiry: when they are tried again, how large they are, what their notices say, and whether their
// user may have more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/status_file.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/flow/flow.hpp"
#include "daemon/root/held/recoveries.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/records.hpp"
#include "daemon/root/tasks/job_output.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

// Measurements: how large held results are. A process of the user measures, which the user can stop
// or kill: what it has not reported in time counts as too large, and is measured again later. So is
// what was measured, at each try to deliver it and once an hour, since it can grow: a process that
// had a file there open before can write to it.
class Measurements {
 public:
  // One has ended: due() has changed.
  using OnEnd = std::function<void(const JobKey& key)>;
  // Whether the results are about to be removed.
  using IsLeaving = std::function<bool(const JobKey& key)>;

  Measurements(const JobDeps& deps, IsLeaving is_leaving, OnEnd on_end)
      : deps_(deps), is_leaving_(std::move(is_leaving)), on_end_(std::move(on_end)) {}

  // Measures when it is the user's turn. The result goes into the record and the journal.
  void ask(const JobRecord& record);
  // Plans the next measurement of what was measured before.
  void expect(const JobKey& key);
  [[nodiscard]] bool is_running(const JobKey& key) const;
  // Returns when the next measurement is due, in seconds since 1970.
  [[nodiscard]] std::optional<std::uint64_t> due(const JobKey& key) const;
  // Whether a size that is not known yet should be known by now.
  [[nodiscard]] bool is_late(const JobKey& key) const;
  void forget(const JobKey& key) { tries_.erase(key); }

 private:
  struct Tries {
    std::uint64_t since = 0;  // seconds since 1970
    std::uint32_t failed = 0;
    std::optional<std::uint64_t> due;
  };
  Turns::Begun start(const JobKey& key);
  void measured(const JobKey& key, std::uint32_t uid, const WorkerEnd& end);
  void note(JobRecord& record, const ItemRecord& measured);
  void try_later(const JobKey& key);

  JobDeps deps_;
  Turns turns_{deps_.loop};
  IsLeaving is_leaving_;
  OnEnd on_end_;
  std::map<JobKey, Tries> tries_;
};

class HeldResults {
 public:
  struct Deps : JobDeps {
    Notices& notices;
  };
  explicit HeldResults(const Deps& deps) : deps_(deps) {}
  HeldResults(const HeldResults&) = delete;

  // Makes the state held, after a stage-out that has failed for `record.cause`. Reports `held`.
  void hold(JobRecord& record);
  // Watches held results from now on. Reports tries, recovery and expiry: `retry_due` and
  // `released`.
  void look_after(JobRecord& record);
  // Takes over the try of a job that is carried on from the journal.
  void carry_on_try(const JobRecord& record) { retries_.take(record.begin.uid, record.key()); }
  // Notes that a try has ended, with any result.
  void try_ended(const JobRecord& record) { retries_.end(record.begin.uid, record.key()); }
  void settings_changed();

  // Reports `released` after the notice `text` to their user. `parting`: why, for the report.
  void release(JobRecord& record, const std::string& text, std::string parting = {});
  [[nodiscard]] bool is_leaving(const JobKey& key) const { return partings_.count(key) > 0; }
  // Returns why held results left; "" when they did not, or were delivered.
  [[nodiscard]] std::string parting(const JobKey& key) const;
  void write_notice(const JobRecord& record, const std::string& text,
                    Notices::OnWritten done) const;
  // Forgets a job that is about to leave the table.
  void forget(const JobRecord& record);

  // For `nodestage recover`: the runs that are meant; a caller who wants one; and who went away.
  [[nodiscard]] std::vector<JobKey> find(const Recover& ask) const;
  Ticket recover(const Recover& ask, Ticket ticket, const Reply& reply);
  bool leave(Ticket ticket) { return recoveries_.leave(ticket); }

  // Returns why outputs of a new job are refused; "" when they are not.
  [[nodiscard]] std::string refusal_of_outputs(const JobRecord& record) const;

 private:
  void note_failure(JobRecord& record);
  void set_timer(const JobKey& key);
  void timer_due(const JobKey& key);
  void cancel_timer(const JobKey& key);
  [[nodiscard]] std::uint64_t next_date(const JobRecord& record) const;
  void warn(JobRecord& record);
  [[nodiscard]] bool is_expired(const JobRecord& record) const;
  [[nodiscard]] bool is_busy(const JobKey& key) const;
  Turns::Begun try_again(const JobKey& key);
  [[nodiscard]] bool is_taken_away(const JobRecord& record);
  void write_held_notice(const JobRecord& record);
  void recovery_ended(const JobKey& key, const std::optional<std::string>& directory);

  Deps deps_;
  Turns retries_{deps_.loop};
  Measurements measurements_{deps_, [this](const JobKey& key) { return is_leaving(key); },
                             [this](const JobKey& key) { set_timer(key); }};
  Recoveries recoveries_{deps_, [this](const JobKey& key, const std::optional<std::string>& to) {
                           recovery_ended(key, to);
                         }};
  std::map<JobKey, Loop::TimerId> timers_;  // for the next thing to do
  std::map<JobKey, std::string> partings_;  // of those that leave, after their notice
};

}  // namespace nodestage
