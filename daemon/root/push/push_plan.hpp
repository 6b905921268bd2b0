// Decides which of a job's outputs are delivered, and when. Pure; Pushes (pushes.hpp) acts on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/metrics/metrics.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

// Outputs of one job: all, or those of a timer, or those that callers named.
struct PushWanted {
  bool all = false;
  std::uint64_t items = 0;  // bit i: item i of --stage-out
  std::set<std::string> names;

  [[nodiscard]] bool is_empty() const { return !all && items == 0 && names.empty(); }
  void add(const std::vector<std::string>& more);  // none: all
  void write_to(PushOrder& order) const;
};

// Returns how long after the start of a job its first delivery is due. The nodes of a job, and jobs
// that started together, take turns within the interval.
std::chrono::milliseconds first_delay(const Begin& begin, std::chrono::seconds interval);

// Returns the note for a job's output on intervals that are raised; "" if none is. `every_s` and
// `least_s` are those of PushTimes.
std::string raised_note(const std::vector<std::uint32_t>& every_s, std::uint64_t least_s);

// The outputs with the key `every`, each with the moment when it is due.
class PushTimes {
 public:
  // `every_s` is what the worker reports, and `least_s` what a shorter interval is raised to.
  // `waited` is the time since the job became ready, or something was delivered.
  PushTimes() = default;
  PushTimes(const Begin& begin, const std::vector<std::uint32_t>& every_s, std::uint64_t least_s,
            Clock::time_point now, std::chrono::milliseconds waited);

  [[nodiscard]] std::optional<Clock::time_point> next() const;
  // Returns those that are due now, bit i for item i. They are due again after their interval.
  std::uint64_t take_due(Clock::time_point now);
  // Makes nothing due before `until`.
  void postpone(Clock::time_point until);

 private:
  struct Output {
    std::size_t item;
    std::chrono::seconds interval;
    Clock::time_point due;
  };
  std::vector<Output> outputs_;
};

// Texts on what a push has done, for its callers, its user and the log. Pure functions, which
// Pushes calls. Texts are printable.
using PushResult = Counters::Pushed;

PushResult result_of(const WorkerStatus& status);

// Returns the answer to a caller that asked for `names`; none: all outputs. `end` serves where the
// status does not say how the push ended.
Message answer_to(const std::vector<std::string>& names, const WorkerStatus& status,
                  const WorkerEnd& end);

// Returns why it failed: the worker's words, or how it ended.
std::string cause_of_failure(const WorkerStatus& status, const WorkerEnd& end);

// The outputs whose last delivery has failed: bit i of `items` for output i.
struct PushFailures {
  std::uint64_t items = 0;
  bool is_unknown = false;  // a push ended before it could say of which outputs

  [[nodiscard]] bool is_empty() const { return items == 0 && !is_unknown; }
  bool operator==(const PushFailures&) const = default;
};
PushFailures failures_after(PushFailures before, const WorkerStatus& status);

// Replaces those items of `shown` that the push was about, for `nodestage status`.
void show_push(const WorkerStatus& status, std::vector<ItemRecord>& shown);

}  // namespace nodestage
