// WorkerOrder: a worker's task, from the daemon. Trusted: the daemon writes it, with facts from
// slurmd. JSON on an inherited descriptor; the user's request is passed separately, as opaque
// bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"
#include "common/text/json_fields.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/protocol.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

// The settings of a site that its workers go by. They stand in the daemon's settings and in a
// worker's order.
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

struct VenvRules {
  VenvBuild build = VenvBuild::wheels_only;
  VenvInstaller installer = VenvInstaller::pip;
  std::string uv = "/usr/local/bin/uv";  // the program's path
  std::vector<std::string> find_links;   // directories of wheels
  std::string module_init;               // the script that defines `module`; empty: the usual paths
  std::uint64_t limit_s = 3600;

  bool operator==(const VenvRules&) const = default;
};

struct PortRange {
  std::uint16_t first = 6826;  // 0: any
  std::uint16_t last = 6925;

  bool operator==(const PortRange&) const = default;
};

// For items with in=memory. The worker is in the memory cgroup of the job, or of `nodestage run`'s
// caller, so what it writes there counts as theirs.
struct MemoryRules {
  std::string directory;             // k_worker_memory_fd's path; empty: there is none
  std::string refusal;               // why there is none
  std::uint64_t share_percent = 75;  // of the memory that the items may take together
  std::uint64_t most_bytes = 0;      // of the job on this node, by Slurm; 0: not known

  bool operator==(const MemoryRules&) const = default;
};

// For items with `mount`: images that are mounted and served from the local disk
// (daemon/worker/image/image_server.hpp).
//
// The way of such an item:
//   1. The prolog's hook, which is root, mounts a FUSE file system for each in ImageRules::mounts:
//      read-only, for the job's user alone. So it is there before the job's name spaces of mounts.
//   2. The daemon starts the worker task `serve` with the mounts' descriptors (k_worker_fuse_fd).
//   3. The worker task `stage` places the image at kept_place() of its destination, makes the link
//      image_link() to it in the job directory, and the destination a link to the mount.
//   4. `serve` answers as an empty file system until image_link() is there, and then for what that
//      leads to. A link to /dev/null gives the mount up.
//   5. At the job's end the epilog's hook detaches the mounts, and the daemon ends `serve`, with
//      which the kernel ends the file systems.

inline constexpr std::size_t k_max_images = 8;  // of a job

struct ImageRules {
  std::vector<std::string> mounts;  // absolute, of the request's items with `mount`, in their order
  std::string refusal;              // why there are none

  bool operator==(const ImageRules&) const = default;
};

// Returns the name below the root of the job directories of what holds the mounts of a run: 0, 1,
// …, directories of root's.
inline constexpr std::string_view k_image_area = ".nodestage-images/";
inline std::string image_mounts_name(std::uint32_t job, std::uint32_t restart) {
  return std::string(k_image_area) + std::to_string(job) + "." + std::to_string(restart);
}

// Returns the name in the job directory of a link to the image that is mounted at
// ImageRules::mounts[index].
inline std::string image_link(std::size_t index) {
  return ".nodestage-image." + std::to_string(index);
}

// Returns how many items with `mount` a request has. What says so in other words than
// encode_request() is refused by the worker.
inline std::size_t images_in(std::string_view request) {
  constexpr std::string_view k_text = "\"mount\":true";
  std::size_t count = 0;
  for (std::size_t at = request.find(k_text); at != std::string_view::npos;
       at = request.find(k_text, at + k_text.size()))
    ++count;
  return count;
}

// How a job's large sources get from node to node.
struct RelayRules {
  std::uint64_t least_bytes = 64ULL << 20;  // smaller sources are not relayed
  std::uint64_t window_bytes = 4ULL << 30;  // of the spool; 0: nothing is relayed
  PortRange ports;                          // to listen on
  std::uint64_t silence_wait_s = 10;        // after which a process that says nothing is given up
  std::uint64_t patience_s = 10;            // for which a reader may keep others waiting, in all
  std::uint64_t answer_wait_s = 5;          // after which the relay worker reads without a plan
  // Types, as in mountinfo; "fuse": "fuse.*", too.
  std::vector<std::string> file_systems = {
      "nfs",  "nfs4",  "lustre", "gpfs",   "beegfs",         "ceph",          "cifs",
      "smb3", "pvfs2", "panfs",  "wekafs", "fuse.ceph-fuse", "fuse.glusterfs"};
  // What all nodes of a job may read together, bytes per second, where each reads a source for
  // itself; 0: all are relayed.
  std::uint64_t site_rate_bytes = 4ULL << 30;

  bool operator==(const RelayRules&) const = default;
};

// Items with the key `shared`: staged once on a node, and found there by every further job of the
// same user that asks for the same. Their sources are archives, other files, directories, and lists
// of requirements.
//
// The way of such an item:
//   1. The worker task `identify` opens the source as the user and writes into the item's record
//      (status_file.hpp): flag k_item_shared; `name`: its key, or "" if it must not be kept, and
//      then `note`: why; `what`: the last part of its destination; bytes_total: of its source.
//   2. The daemon decides what the job does with it: ShareRole.
//   3. The worker task `stage` learns it from StageOrder::shared. An item that it staged to be kept
//      has the flag k_item_whole, and one that it only linked k_item_linked.
//   4. The daemon moves a whole item into the cache by one exchange of names, which leaves the link
//      in the job directory.
//
// The cache is ROOT/.nodestage-cache, beside the job directories:
//   <uid>.<random>/        root's, 0711; an earlier release's: <uid>.<key>
//     <name>               the tree or the file, the user's, without write bits (a directory: 0500)
//   <uid>.<random>.record  root's, 0600; says the key; an entry without it does not count

// With the key `writable`, the job has directories of its own at the destination, with links to the
// files below kept_place(), which lies in the job directory and is what the daemon moves.

inline constexpr std::string_view k_kept_prefix = ".nodestage-shared/";

inline std::string kept_place(const std::string& destination) {
  return std::string(k_kept_prefix) + destination;
}

inline constexpr std::size_t k_share_key_bytes = 32;  // lowercase hexadecimal digits

enum class ShareRole {
  own,   // stage it read-only for this job alone; `note` says why
  lead,  // stage it to be kept at `path`
  link,  // it is there: link to `path`
};
constexpr EnumRange<ShareRole> range_of(ShareRole) { return {ShareRole::own, ShareRole::link}; }

struct SharedItem {
  std::uint32_t item = 0;  // its index among the request's items: datasets, then the environment
  ShareRole role = ShareRole::own;
  std::string key;   // as identified; empty for `own`
  std::string path;  // absolute, of the tree or file in the cache; empty for `own`
  // For the summary: "staged by job 4711", why it is not shared, or why for no other user.
  std::string note;
  bool for_readers = false;  // the entry is for all who may read the source
  // `link`, staged for this job by another process: what that has staged. Else 0.
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t elapsed_ms = 0;

  bool operator==(const SharedItem&) const = default;
};

// For documents that hold such items: a worker's order, the journal.
void each_field(Is<SharedItem> auto& shared, auto field) {
  field("item", shared.item);
  field("role", shared.role);
  field("key", shared.key);
  field("path", shared.path);
  field("note", shared.note);
  field("for_readers", shared.for_readers);
  field("files", shared.files);
  field("bytes", shared.bytes);
  field("elapsed_ms", shared.elapsed_ms);
}

// The journal of an earlier daemon does not have them.
constexpr bool may_lack(const SharedItem&, std::string_view name) {
  return name == "for_readers" || name == "files" || name == "bytes" || name == "elapsed_ms";
}

// Whether a request can have such an item. A request that says so in other words than
// encode_request() is staged without sharing.
inline bool may_share(std::string_view request) {
  return request.find("\"shared\":true") != std::string_view::npos;
}

// Whether a request can have an item with in=memory; in other words than encode_request(), it is
// refused by the worker.
inline bool may_be_in_memory(std::string_view request) {
  return request.find("\"in\":\"memory\"") != std::string_view::npos;
}

// Whether sources of a request can need an array's IDs, which a step reports.
// Otherwise, in other words than encode_request(), their values may be not known to the worker.
inline bool may_need_step_names(std::string_view request) {
  return request.find("\"needs_names\":true") != std::string_view::npos;
}

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
// SpaceAnswer (common/wire/status_file.hpp); if it is not a regular file, the worker admits itself.
// For `relay`: RelayPlan (common/wire/peer_note.hpp).
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
// For `serve`: as many as ServeOrder::images, each of a FUSE file system that is mounted.
inline constexpr int k_worker_fuse_fd = 14;
// Up to execve, which closes it: a pipe for the fault if the worker cannot be executed.
inline constexpr int k_worker_started_fd = k_worker_fuse_fd + static_cast<int>(k_max_images);

// One of these numbers, and the descriptor that the worker gets there; if that is -1, /dev/null.
struct WorkerDescriptor {
  int number;
  int fd;
};

// Returns what place_descriptors() (common/os/child.hpp) takes to start a worker: `null` wherever
// nothing else is given, `log` as 1 and 2, and `fuse_fds` from k_worker_fuse_fd on.
std::vector<int> worker_descriptors(int null, int log,
                                    std::initializer_list<WorkerDescriptor> given,
                                    const std::vector<int>& fuse_fds);

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
  identify,  // finds the keys of a request's shared items (worker_order.hpp)
  compare,   // the tree k_worker_directory_fd: when it was last changed
  push,      // stage_out of what has changed, while the job runs
  relay,     // beside `stage`: gets sources from other nodes of the job, and passes them on
  append,    // appends k_worker_request_fd's lines to the job's output
  look,      // as the keeper: `identify` of the sources that this user's `identify` has opened
  keep,      // as the keeper: `stage` of some items, from the sources that it has opened
  serve,     // answers for the job's mounted images (daemon/worker/image/image_server.hpp)
};
constexpr EnumRange<WorkerTask> range_of(WorkerTask) {
  return {WorkerTask::stage, WorkerTask::serve};
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

// For patterns in the names of files that a job's user chose.
struct NamedOrder : OrderHead {
  std::string job_name;  // empty: unknown
  std::uint32_t array_job = k_no_number;
  std::uint32_t array_task = k_no_number;
  bool array_known = false;  // whether the two above were reported (both k_no_number: no array)
};

// What the keys of shared items depend on.
struct IdentifyOrder : NamedOrder {
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
  ImageRules images;
};

struct RelayOrder : OrderHead {
  SandboxNeed sandbox = SandboxNeed::available;
  RelayRules relay;
  bool has_board = false;
};

// What the tasks that copy results have in common.
struct DeliveryOrder : NamedOrder {
  JobOutcome outcome = JobOutcome::unknown;
  bool ran = true;               // false: the staging failed, and no step is known to have run
  std::string work_dir;          // where the job's commands begin; empty: not known
  std::uint64_t delivered = 0;   // bit i: item i of --stage-out needs no more delivery
  std::uint32_t tries = 0;       // the number of earlier tries
  std::uint64_t held_since = 0;  // since when the results are held; 0: they are not
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
  // The job whose output file it is, if that is the first component's of a heterogeneous job; then
  // job_name is that job's.
  std::uint32_t output_job = k_no_number;
};

// Returns "nodestage-12.log", the file of LinesTo::file, beside the job's output.
std::string lines_file_name(std::uint32_t job);

struct LookOrder : IdentifyOrder {};
struct KeepOrder : StageOrder {};

struct ServeOrder : OrderHead {
  SandboxNeed sandbox = SandboxNeed::available;
  std::uint32_t images = 0;  // descriptors from k_worker_fuse_fd on
};

struct MeasureOrder : DeliveryOrder {};
struct ProbeOrder : OrderHead {};
struct CompareOrder : OrderHead {};

// In the order of WorkerTask.
using WorkerOrder = std::variant<StageOrder, StageOutOrder, RemoveOrder, MeasureOrder, NoticeOrder,
                                 RecoverOrder, ProbeOrder, IdentifyOrder, CompareOrder, PushOrder,
                                 RelayOrder, AppendOrder, LookOrder, KeepOrder, ServeOrder>;
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
