// WorkerOrder: a worker's task, from the daemon. Trusted: the daemon writes it, with facts from
// slurmd. JSON on an inherited descriptor; the user's request is passed separately, as opaque
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/shared_item.hpp"

namespace nodestage {

// The descriptors that a worker inherits, besides 0 (/dev/null), 1 and 2 (a pipe to the daemon's
// log). All but the job directory, status, the list of deliveries, the board and the spool are
// read-only.
inline constexpr int k_worker_order_fd = 3;      // WorkerOrder as JSON, at offset 0
inline constexpr int k_worker_request_fd = 4;    // the user's request, at offset 0
inline constexpr int k_worker_status_fd = 5;     // common/wire/status_file.hpp
inline constexpr int k_worker_directory_fd = 6;  // the job directory (for `remove`: the tree)
// 8 bytes, native u64: bytes per second that this worker may read from sources or, for `push` and
// `stage_out`, write to targets; 0: unlimited. The worker reads it again (pread) every second.
inline constexpr int k_worker_rate_fd = 7;
// SpaceAnswer (common/wire/space_claim.hpp); if it is not a regular file, the worker admits itself.
// For `relay`: RelayPlan (common/wire/relay_plan.hpp).
inline constexpr int k_worker_answer_fd = 8;
// For `push` and `stage_out`: what was delivered while the job ran
// (daemon/worker/deliver/delivered_list.hpp), for this worker to read and to continue. The daemon
// keeps it as long as the job, and does not read it.
inline constexpr int k_worker_delivered_fd = 9;
// For `relay`, and for `stage` beside it: the RelayBoard (common/wire/relay_board.hpp) and the
// spool, both for reading and writing.
inline constexpr int k_worker_board_fd = 10;
inline constexpr int k_worker_spool_fd = 11;
inline constexpr int k_worker_fds_end = 12;

// Prefix of a line on descriptor 2 that needs an administrator, as in sd-daemon(3).
inline constexpr char k_error_mark[] = "<3>";

enum class WorkerTask {
  stage,
  stage_out,
  remove,
  measure,   // the size of the tree k_worker_directory_fd
  notice,    // writes k_worker_request_fd's text to a file beside the job's stdout
  recover,   // copies a held tree's undelivered results below recover_to
  probe,     // not for a job: whether workers can confine themselves on this node
  identify,  // finds the keys of a request's shared items (shared_item.hpp)
  compare,   // the tree k_worker_directory_fd: when it was last changed
  push,      // stage_out of what has changed, while the job runs
  relay,     // beside `stage`: gets sources from other nodes of the job, and passes them on
  append,    // appends k_worker_request_fd's lines to the job's output
};
constexpr EnumRange<WorkerTask> range_of(WorkerTask) {
  return {WorkerTask::stage, WorkerTask::append};
}

enum class JobOutcome { success, failure, unknown };
constexpr EnumRange<JobOutcome> range_of(JobOutcome) {
  return {JobOutcome::success, JobOutcome::unknown};
}

enum class OnFailure { fail, proceed };
constexpr EnumRange<OnFailure> range_of(OnFailure) { return {OnFailure::fail, OnFailure::proceed}; }

// What a worker that stages needs of its sandbox.
enum class SandboxNeed {
  available,  // as much as the kernel has
  required,   // all of it, or nothing is staged
};
constexpr EnumRange<SandboxNeed> range_of(SandboxNeed) {
  return {SandboxNeed::available, SandboxNeed::required};
}

// Where the lines about a job's results go.
enum class LinesTo {
  output,  // the job's standard output file
  file,    // a file beside it
};
constexpr EnumRange<LinesTo> range_of(LinesTo) { return {LinesTo::output, LinesTo::file}; }

// What the site lets --stage-venv run while it stages.
enum class VenvBuild {
  wheels_only,  // virtual environments are built from wheels alone
  off,          // nothing is built
  any,          // also from source distributions
};
constexpr EnumRange<VenvBuild> range_of(VenvBuild) {
  return {VenvBuild::wheels_only, VenvBuild::any};
}
enum class VenvInstaller { pip, uv };
constexpr EnumRange<VenvInstaller> range_of(VenvInstaller) {
  return {VenvInstaller::pip, VenvInstaller::uv};
}

// What an archive may contain, by the site's settings.
enum class Escaping { fail, skip };  // for an entry that would leave its destination
enum class Special { skip, keep };   // for FIFOs, and for set-id and sticky bits
constexpr EnumRange<Escaping> range_of(Escaping) { return {Escaping::fail, Escaping::skip}; }
constexpr EnumRange<Special> range_of(Special) { return {Special::skip, Special::keep}; }
struct ExtractRules {
  Escaping escaping = Escaping::fail;
  Special special = Special::skip;
  std::uint64_t max_entries = 1'000'000'000;
  std::uint64_t max_ratio = 50'000;  // bytes written per byte of the archive
  bool xattrs = false;               // also in copies of directories

  bool operator==(const ExtractRules&) const = default;
};

struct WorkerOrder {
  WorkerTask task = WorkerTask::stage;
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
  std::string node;
  std::uint32_t node_index = k_no_number;  // of this node in the job, for %n; k_no_number: unknown
  std::uint32_t node_count = 1;
  std::string directory;  // the job directory's path, for the environment and messages
  std::uint32_t threads = 1;
  SandboxNeed sandbox = SandboxNeed::available;
  std::uint64_t leave_free_bytes = 0;  // on the job directory's file system
  std::uint32_t start_delay_ms = 0;
  OnFailure on_failure = OnFailure::fail;
  std::string refuse_outputs;  // stage: why a request with outputs must fail; empty: it may pass
  std::string refuse_venv;     // stage: why a virtual environment must fail; empty: it may pass
  ExtractRules extract;
  VenvBuild venv_build = VenvBuild::wheels_only;
  VenvInstaller venv_installer = VenvInstaller::pip;
  std::vector<std::string> venv_find_links;  // directories of wheels
  std::string venv_uv;                       // the program's path
  std::string venv_module_init;  // the script that defines `module`; empty: the usual paths
  std::uint32_t venv_limit_s = 3600;
  // identify and stage:
  std::uint32_t cache_min_age_s = 60;    // what was changed less than this before is not kept
  std::string cache;                     // the path of the cache; empty: this node keeps nothing
  std::vector<std::string> cache_never;  // what lies below these directories is not kept
  std::vector<SharedItem> shared;        // stage: what was decided; an item without one is `own`
  // stage_out only:
  std::string job_name;  // empty: unknown
  JobOutcome outcome = JobOutcome::unknown;
  std::uint32_t array_job = k_no_number;
  std::uint32_t array_task = k_no_number;
  bool array_known = false;  // whether the two above were reported (both k_no_number: no array)
  bool ran = true;           // false: the staging failed, and no step is known to have run
  bool is_urgent = false;    // remove only: the space is needed: not at the lowest priority
  // stage only: an earlier worker of the job may have placed some of what it asks for, so that what
  // lies at an item's destination gives way to it.
  bool is_again = false;
  // stage_out and recover of a held tree:
  std::uint64_t delivered = 0;  // bit i: item i of --stage-out needs no more delivery
  std::uint32_t tries = 0;      // the number of earlier tries
  std::string recover_to;       // recover only: absolute
  // stage and relay:
  std::uint64_t relay_least_bytes = 64ULL << 20;  // smaller sources are not relayed
  std::uint64_t relay_window = 4ULL << 30;        // bytes of the spool; 0: nothing is relayed
  std::vector<std::string> relay_file_systems;    // types, as in mountinfo; "fuse": "fuse.*", too
  std::uint32_t relay_silence_s = 10;   // after which a process that says nothing is given up
  std::uint32_t relay_patience_s = 10;  // for which a reader may keep others waiting, in all
  std::uint32_t relay_plan_s = 5;       // relay only: after which it reads without a plan
  std::uint16_t relay_first_port = 0;   // relay only: the ports to listen on; 0: any
  std::uint16_t relay_last_port = 0;
  bool has_board = false;  // k_worker_board_fd and k_worker_spool_fd are valid
  // stage_out and push:
  bool keeps_list = false;  // k_worker_delivered_fd and, for targets, k_worker_rate_fd are valid
  bool push_all = false;    // push only
  // ItemRecord::staged_ns of each item that was staged, also for `recover`; empty: not known.
  std::vector<std::uint64_t> staged_ns;
  // push only; an output is delivered if any of these, or push_all, names it:
  std::uint64_t push_items = 0;         // bit i: item i of --stage-out
  std::vector<std::string> push_names;  // sources of --stage-out, as users type them
  // notice and append:
  std::string stdout_path;  // from slurmd
  std::string work_dir;
  LinesTo lines_to = LinesTo::output;  // append only
};

std::string encode_order(const WorkerOrder& order);
Result<WorkerOrder> decode_order(std::string_view json);

}  // namespace nodestage
