// WorkerOrder: a worker's task, from the daemon. Trusted: the daemon writes it, with facts from
// slurmd. JSON on an inherited descriptor; the user's request is passed separately, as opaque
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/result.hpp"
#include "common/text/byte_texts.hpp"
#include "common/text/words.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/shared_item.hpp"
#include "common/wire/worker_rules.hpp"

namespace nodestage {

// The descriptors that a worker inherits, besides 0 (/dev/null), 1 and 2 (a pipe to the daemon's
// log). All but the job directory, status, the list of deliveries, the board, the spool and the
// directory in memory are read-only.
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
// For `stage`: the job's directory in memory (MemoryRules); /dev/null without one.
inline constexpr int k_worker_memory_fd = 12;
// For `identify`, `look` and `keep`: a socket between the first and one of the others
// (daemon/worker/read/opened_sources.hpp).
inline constexpr int k_worker_sources_fd = 13;
inline constexpr int k_worker_fds_end = 14;

// Prefix of a line on descriptor 2 that needs an administrator, as in sd-daemon(3).
inline constexpr char k_error_mark[] = "<3>";

enum class WorkerTask {
  stage,
  stage_out,
  remove,
  measure,   // drops what is no result from the held tree k_worker_directory_fd; then its size
  notice,    // writes k_worker_request_fd's text to a file beside the job's stdout
  recover,   // copies a held tree's undelivered results below recover_to
  probe,     // not for a job: whether workers can confine themselves on this node
  identify,  // finds the keys of a request's shared items (shared_item.hpp)
  compare,   // the tree k_worker_directory_fd: when it was last changed
  push,      // stage_out of what has changed, while the job runs
  relay,     // beside `stage`: gets sources from other nodes of the job, and passes them on
  append,    // appends k_worker_request_fd's lines to the job's output
  look,      // as the keeper: `identify` of the sources that this user's `identify` has opened
  keep,      // as the keeper: `stage` of some items, from the sources that it has opened
};
constexpr EnumRange<WorkerTask> range_of(WorkerTask) {
  return {WorkerTask::stage, WorkerTask::keep};
}

enum class JobOutcome { success, failure, unknown };
constexpr EnumRange<JobOutcome> range_of(JobOutcome) {
  return {JobOutcome::success, JobOutcome::unknown};
}
inline constexpr Word k_job_outcome_words[] = {{"success", JobOutcome::success},
                                               {"failure", JobOutcome::failure},
                                               {"unknown", JobOutcome::unknown}};

// Where the lines about a job's results go.
enum class LinesTo {
  output,  // the job's standard output file
  file,    // a file beside it
};
constexpr EnumRange<LinesTo> range_of(LinesTo) { return {LinesTo::output, LinesTo::file}; }

// What every order says.
struct OrderHead {
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
};

// What the keys of shared items depend on.
struct IdentifyOrder : OrderHead {
  ExtractRules extract;
  VenvRules venv;
  std::string cache;                     // the path of the cache; empty: this node keeps nothing
  std::vector<std::string> cache_never;  // what lies below these directories is not kept
  std::uint64_t cache_min_age_s = 60;    // what was changed less than this before is not kept
  // Whether what is kept is for all who may read the source; then the task is the keeper's.
  bool for_readers = false;
  bool hands_over = false;                // `identify`: open sources go to k_worker_sources_fd
  std::vector<std::uint32_t> only_items;  // no others of the request count; empty: all do
  // Unless the worker is in one of these groups, its job must fail with that text, and nothing is
  // opened for it. Empty: all may.
  std::vector<std::uint64_t> only_groups;
  std::string refuse_user;
};

struct StageOrder : IdentifyOrder {
  SandboxNeed sandbox = SandboxNeed::available;
  std::uint64_t leave_free_bytes = 0;  // on the job directory's file system
  std::uint32_t start_delay_ms = 0;
  OnFailure on_failure = OnFailure::fail;
  std::string refuse_outputs;      // why a request with outputs must fail; empty: it may pass
  std::string refuse_venv;         // why a virtual environment must fail; empty: it may pass
  std::vector<SharedItem> shared;  // what was decided; an item without one is `own`
  // An earlier worker of the job may have placed some of what it asks for, so that what lies at an
  // item's destination gives way to it.
  bool is_again = false;
  RelayRules relay;
  bool has_board = false;  // k_worker_board_fd and k_worker_spool_fd are valid
  MemoryRules memory;
};

struct RelayOrder : OrderHead {
  SandboxNeed sandbox = SandboxNeed::available;
  RelayRules relay;
  bool has_board = false;
};

// For patterns in the names of files that a job's user chose.
struct NamedOrder : OrderHead {
  std::string job_name;  // empty: unknown
  std::uint32_t array_job = k_no_number;
  std::uint32_t array_task = k_no_number;
  bool array_known = false;  // whether the two above were reported (both k_no_number: no array)
};

// What the tasks that copy results have in common.
struct DeliveryOrder : NamedOrder {
  JobOutcome outcome = JobOutcome::unknown;
  bool ran = true;              // false: the staging failed, and no step is known to have run
  std::uint64_t delivered = 0;  // bit i: item i of --stage-out needs no more delivery
  std::uint32_t tries = 0;      // the number of earlier tries
  bool keeps_list = false;  // k_worker_delivered_fd and, for targets, k_worker_rate_fd are valid
  // ItemRecord::staged_ns of each item that was staged; empty: not known.
  std::vector<std::uint64_t> staged_ns;
};

struct StageOutOrder : DeliveryOrder {};

// An output is delivered if any of these names it.
struct PushOrder : DeliveryOrder {
  bool push_all = false;
  std::uint64_t push_items = 0;  // bit i: item i of --stage-out
  ByteTexts push_names;          // sources of --stage-out, as users type them
  bool shows_total = false;      // somebody sees the progress
};

struct RecoverOrder : DeliveryOrder {
  std::string recover_to;  // absolute
};

struct RemoveOrder : OrderHead {
  bool is_urgent = false;  // the space is needed: not at the lowest priority
};

struct NoticeOrder : NamedOrder {
  std::string stdout_path;  // from slurmd
  std::string work_dir;
};

struct AppendOrder : NoticeOrder {
  LinesTo lines_to = LinesTo::output;
};

struct LookOrder : IdentifyOrder {};
struct KeepOrder : StageOrder {};

struct MeasureOrder : DeliveryOrder {};
struct ProbeOrder : OrderHead {};
struct CompareOrder : OrderHead {};

// In the order of WorkerTask.
using WorkerOrder = std::variant<StageOrder, StageOutOrder, RemoveOrder, MeasureOrder, NoticeOrder,
                                 RecoverOrder, ProbeOrder, IdentifyOrder, CompareOrder, PushOrder,
                                 RelayOrder, AppendOrder, LookOrder, KeepOrder>;
static_assert(std::variant_size_v<WorkerOrder> ==
              static_cast<int>(range_of(WorkerTask()).last) + 1);

// An order for that task, with nothing filled in.
WorkerOrder blank_order(WorkerTask task);
inline WorkerTask task_of(const WorkerOrder& order) {
  return static_cast<WorkerTask>(order.index());
}
inline const OrderHead& head_of(const WorkerOrder& order) {
  return std::visit([](const OrderHead& head) -> const OrderHead& { return head; }, order);
}
inline OrderHead& head_of(WorkerOrder& order) {
  return std::visit([](OrderHead& head) -> OrderHead& { return head; }, order);
}

// Null: it delivers nothing.
DeliveryOrder* delivery_of(WorkerOrder& order);

std::string encode_order(const WorkerOrder& order);
Result<WorkerOrder> decode_order(std::string_view json);
// Reads it as one for that task, whatever its own is.
Result<StageOutOrder> decode_stage_out(std::string_view json);

}  // namespace nodestage
