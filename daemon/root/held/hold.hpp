// What is decided and said about results that could not be delivered. Pure functions, which
// HeldResults calls. Times are in seconds since 1970; texts are printable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/job.hpp"

namespace nodestage {

// Returns the pause after `tries` failed tries: `first`, doubled each time up to `most`.
std::uint64_t retry_delay_s(std::uint32_t tries, std::uint64_t first, std::uint64_t most);

struct HoldTimes {
  std::uint64_t warn = 0;
  std::uint64_t expire = 0;
};
// Returns when to warn and when to remove. Nothing is removed before a warning of warn_days,
// whatever the clock showed when it was held.
HoldTimes hold_times(const HoldRecord& hold, const Config::Hold& settings);

// Corrects dates that lie in the future, or too far in it, because the clock or the settings were
// changed. Does nothing while the clock is plainly behind, as on a node that boots without one:
// held results would seem years old afterwards. For the same reason, results held by such a clock
// count from now.
void mend_times(HoldRecord& hold, const Config::Hold& settings, std::uint64_t now);

// From the last stage-out's status, which the worker's exit may have cut off.
bool can_try_again(const WorkerStatus& status);
std::uint64_t delivered_items(const WorkerStatus& status);
// Whether the job's user can remove the cause of all that was not delivered.
bool waits_for_user(const WorkerStatus& status);
// Returns a line for each item that was not delivered, bounded. The first line of `cause` comes
// before them if the worker did not report its failure.
std::vector<std::string> reasons_of(const WorkerStatus& status, const std::string& cause);

// Returns "12", or "12.1" for a later run, as `nodestage recover` takes it.
std::string run_name(const JobKey& key);

// Returns where `nodestage recover` with `directory` copies them. The nodes of a job can have files
// of the same name, so that each has a directory of its own.
std::string recovered_to(const JobRecord& record, const std::string& directory);

// Whether Slurm may switch the job's node off when it is idle.
bool can_be_switched_off(const JobRecord& record);

// The user's notice (nodestage-JOBID.txt).
std::string held_notice(const JobRecord& record, const Config::Hold& settings);
std::string delivered_notice(const JobRecord& record);
std::string recovered_notice(const JobRecord& record, const std::string& directory);
std::string expired_notice(const JobRecord& record);
// Why results that could not be delivered are not kept either.
enum class Loss {
  mount,    // the site's directory cannot be moved to where it would stay
  removed,  // another program of the site has removed the directory
};
std::string lost_notice(const JobRecord& record, Loss loss);
// About deliveries while the job runs: they have begun to fail; they succeed again.
std::string push_failed_notice(const JobRecord& record, const std::string& cause);
std::string pushed_again_notice(const JobRecord& record);
// About outputs that were not there; "" when all were.
std::string missing_notice(const JobRecord& record, const WorkerStatus& status);

struct HeldTree {
  JobKey key;
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  // The process that measures runs as its user, who can kill or stop it: what it has not reported
  // in time may be of any size.
  bool is_unmeasurable = false;
};
// Returns why a new job with --stage-out may not run while `held`, all of one user, are here; ""
// when it may.
std::string outputs_refusal(const std::vector<HeldTree>& held, const std::string& node,
                            const Config::Hold& settings);
// The same where they could not be kept, because the site mounts the job directory `path`.
std::string unkept_refusal(const std::string& path, const std::string& node);

// What a job's output says of its results. Pure functions; the texts are printable and have one
// line each. JobOutput appends them.

// After the job's stage-out: a line for each output that was delivered or not, and one if
// deliveries had failed while the job ran. Of a job of several nodes, only the first one says that
// there was nothing to deliver.
std::vector<std::string> result_lines(const JobRecord& record, const WorkerStatus& status);

// What the job's start could not say of its async items: those that failed later, and those that
// were not complete at its end. `fault`: how their worker ended; "": with the job.
std::vector<std::string> late_lines(const JobRecord& record, const WorkerStatus& staged,
                                    const std::string& fault);

// The same as result_lines() for results that are held now, with how to fetch them. `cause`: for a
// status that does not say why.
std::vector<std::string> held_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause);

// What became of results that were held. `parting`: why they left; "": they are delivered.
std::vector<std::string> released_lines(const WorkerStatus& status, const std::string& parting);

// The same for results that are lost now.
std::vector<std::string> lost_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause, Loss loss);

}  // namespace nodestage
