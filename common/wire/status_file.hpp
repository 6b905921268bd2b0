// What a worker and the daemon write for each other into files: the worker's status, its claim for
// space on the local disk, and the daemon's answer. These are files, not messages, so that a
// restarted daemon finds them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {

// SpaceClaim and SpaceAnswer: how a staging worker asks for space on the node's local disk, and how
// the daemon admits it.
//
// The claim is the last part of the header of the worker's status file (status_file.hpp). The
// answer is a whole file, one per job, that only the daemon writes and the worker has open for
// reading (k_worker_answer_fd). Both are overwritten in place. `serial` is written last, so an
// answer with the claim's serial answers that claim. All amounts are sums since the worker's start:
// the worker can still write admitted - written. A claim is made with the user's rights: only
// decide() and SpaceLedger use it.
//
// These are files, not messages, so that a restarted daemon finds both.

// The limits of a request, for code that only passes it on.

// The request travels in an environment variable: an oversized one makes Slurm's exec of the prolog
// fail, which drains the node.
inline constexpr std::size_t k_max_request_bytes = 16 * 1024;
inline constexpr std::size_t k_max_request_items = 64;  // datasets and venv together; and outputs

struct Amount {
  std::uint64_t bytes = 0;  // in blocks of the file system
  std::uint64_t inodes = 0;

  bool operator==(const Amount&) const = default;
};

inline constexpr std::uint64_t k_no_limit = std::numeric_limits<std::uint64_t>::max();

inline std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }
inline std::uint64_t more(std::uint64_t a, std::uint64_t b) {
  return a > k_no_limit - b ? k_no_limit : a + b;
}
// Saturate at 0 and at k_no_limit.
inline Amount operator-(const Amount& a, const Amount& b) {
  return {less(a.bytes, b.bytes), less(a.inodes, b.inodes)};
}
inline Amount operator+(const Amount& a, const Amount& b) {
  return {more(a.bytes, b.bytes), more(a.inodes, b.inodes)};
}
inline Amount smaller(const Amount& a, const Amount& b) {
  return {std::min(a.bytes, b.bytes), std::min(a.inodes, b.inodes)};
}
inline Amount larger(const Amount& a, const Amount& b) {
  return {std::max(a.bytes, b.bytes), std::max(a.inodes, b.inodes)};
}
inline bool fits(const Amount& part, const Amount& whole) {
  return part.bytes <= whole.bytes && part.inodes <= whole.inodes;
}

struct SpaceClaim {
  std::uint64_t serial;      // 0: no claim yet
  Amount need;               // expected; can decrease without a new serial
  Amount least;              // the worker cannot go on with less
  Amount written;            // so far
  std::uint64_t with_spare;  // 1: the worker can do with less than `least`, and then asks again
};

struct SpaceAnswer {
  std::uint64_t serial;
  std::uint32_t granted;  // 1: `admitted` includes the claim's least
  std::uint32_t others;   // jobs that `promised` belongs to
  Amount admitted;
  Amount written;   // as the daemon read it
  Amount free;      // on the file system
  Amount promised;  // to other jobs, and not yet written
  std::uint64_t leave_free;
  std::uint64_t unused;
};

static_assert(sizeof(SpaceClaim) == 64 && std::is_trivially_copyable_v<SpaceClaim>);
static_assert(sizeof(SpaceAnswer) == 96 && std::is_trivially_copyable_v<SpaceAnswer>);

// The state of a file system, for decide().
struct Disk {
  Amount free{k_no_limit, k_no_limit};
  std::uint64_t leave_free = 0;  // bytes
  Amount promised{};             // to others
  std::uint32_t others = 0;
};

// If `least` is available, admits it, and of the rest of `need` at most half of the space that is
// then left, so that a guess does not keep other jobs out. Otherwise refuses and keeps `admitted`.
SpaceAnswer decide(const SpaceClaim& claim, const Amount& admitted, const Disk& disk);

// Free space and inodes of the file system of an open file; k_no_limit where the file system does
// not count inodes or statvfs fails.
Amount free_on(int fd);

// The worker's claim, in its status file (borrowed). write_space_claim writes all but `written`,
// and the serial last.
Status write_space_claim(int status_fd, const SpaceClaim& claim);
Status write_space_written(int status_fd, const Amount& written);
Result<SpaceClaim> read_space_claim(int status_fd);

// The daemon's answer, in its own file (borrowed). A file that is too short reads as serial 0.
Status write_space_answer(int fd, const SpaceAnswer& answer);
Result<SpaceAnswer> read_space_answer(int fd);

// The status file: how a worker reports its state to the daemon.
//
// One file per job and worker kind. The daemon creates it in the hidden `.nodestage` directory
// beside the job directories and passes it to the worker as an open descriptor. The worker
// overwrites fixed-size records in place with pwrite; the daemon reads them on request and when the
// worker has exited. It is a file and not a pipe so that a restarted daemon knows everything that
// an adopted worker reported. The contents are written with the rights of the job's user: every
// number is a claim, and every text is bounded and made printable before use.
//
//   offset 0                              StatusHeader
//   k_environment_offset                  environment: NAME=VALUE, NUL-terminated each
//   k_items_offset + i * sizeof(ItemRecord)   ItemRecord i
//
// Native byte order: writer and reader are on one host. While the worker lives, a reader can see a
// partly updated record (this matters for progress only); once it has exited, records are complete.

inline constexpr std::uint32_t k_status_magic = 0x3167736e;  // "nsg1"

enum class WorkerPhase : std::uint32_t {
  none = 0,      // nothing written yet
  starting = 1,  // the worker runs; the items are not known yet
  working = 2,
  ready = 3,   // all that the job waits for is in place; `async` items may still run
  done = 4,    // finished without a fault
  failed = 5,  // failed; `cause` says why
};
constexpr EnumRange<WorkerPhase> range_of(WorkerPhase) {
  return {WorkerPhase::none, WorkerPhase::failed};
}

enum class ItemState : std::uint32_t {
  waiting = 0,
  working = 1,
  done = 2,
  failed = 3,   // `note` says why
  skipped = 4,  // nothing to do; `note` says why (when= does not hold, the source is missing)
};
constexpr EnumRange<ItemState> range_of(ItemState) {
  return {ItemState::waiting, ItemState::skipped};
}
inline constexpr Word k_item_state_words[] = {{"waiting", ItemState::waiting},
                                              {"working", ItemState::working},
                                              {"done", ItemState::done},
                                              {"failed", ItemState::failed},
                                              {"skipped", ItemState::skipped}};

struct StatusHeader {
  std::uint32_t magic;
  std::uint32_t phase;  // WorkerPhase
  std::uint32_t items;  // how many ItemRecords are valid
  std::uint32_t environment_bytes;
  char cause[3236];          // NUL-terminated; lines separated by '\n'
  std::uint32_t outputs;     // `stage`, phases ready and done: how many items --stage-out has
  std::uint32_t relay_port;  // `relay`, phase working: where it listens; 0: nowhere
  // `stage`, phases ready and done: what `newest=` has chosen here, one line for each such item;
  // NUL-terminated. The nodes of a job compare it.
  char chosen[512];
  // `stage`, the same phases: the interval of each item of --stage-out in seconds; 0: none.
  std::uint32_t every_s[k_max_request_items];
  // The item whose failure `cause` describes, from 1; 0: none, or not known.
  std::uint32_t failed_item;
  SpaceClaim claim;  // written separately
};

struct ItemRecord {
  std::uint32_t state;        // ItemState
  std::uint32_t flags;        // k_item_async and the others below
  std::uint64_t bytes_read;   // of the source
  std::uint64_t bytes_total;  // of the source; 0: unknown
  std::uint64_t bytes_written;
  std::uint64_t files;  // every kind of entry but directories
  std::uint64_t elapsed_ms;
  char what[48];      // "tar.gz", "directory", "file", "zip", "3 archives"; NUL-terminated
  char source[1024];  // for display, shortened in the middle when longer
  char destination[1024];
  char name[256];   // of a dataset: the <NAME> of NODESTAGE_DATASET_<NAME>
  char note[1608];  // a warning or the cause of the failure
  // Of an output that is delivered again: how many files were removed in the target since the job
  // had removed them, what the target has now, and how many deliveries have brought that. (In files
  // of earlier releases the end of `note`, as the next one.)
  std::uint64_t pruned;
  std::uint64_t files_in_all;
  std::uint64_t bytes_in_all;
  std::uint64_t deliveries;
  // `stage`: the same number for the same unchanged source with the same keys, from what the worker
  // has open; of a directory, of its top alone. 0: not known, or it must not be kept.
  std::uint64_t source_mark;
  // `stage`: when the item was complete, in nanoseconds since 1970: what has a later ctime was
  // changed by the job. 0: not, or not known.
  std::uint64_t staged_ns;
  // `stage`: how much of the source was read from its file system, for this item on this node, and
  // how much came from other nodes. Both 0: nothing was to be relayed.
  std::uint64_t bytes_from_storage;
  std::uint64_t bytes_from_nodes;
  // Milliseconds since 1970; 0: has not happened, or not known.
  std::uint64_t begun_ms;
  std::uint64_t read_to_ms;  // when the last byte of the source was read
  std::uint64_t ended_ms;
};

// `waiting` if the record's number is not a state.
inline ItemState state_of(const ItemRecord& item) {
  return to_enum<ItemState>(item.state).value_or(ItemState::waiting);
}

// Whether earlier deliveries of an output have brought some of what its target has.
inline bool has_earlier(const ItemRecord& item) {
  return item.deliveries > (item.files == 0 ? 0 : 1);
}

// Whether the worker still has to work on the item.
inline bool is_unfinished(const ItemRecord& item) {
  const ItemState state = state_of(item);
  return state == ItemState::waiting || state == ItemState::working;
}

// In files of earlier releases, what follows `cause` was the end of it: zero there, except after
// the longest causes.
static_assert(offsetof(StatusHeader, failed_item) == 4028);

inline constexpr std::uint32_t k_item_async = 1;
inline constexpr std::uint32_t k_item_optional = 2;
inline constexpr std::uint32_t k_item_final = 4;         // failed, and another try cannot succeed
inline constexpr std::uint32_t k_item_venv = 8;          // a virtual environment
inline constexpr std::uint32_t k_item_missing = 16;      // an output whose source does not exist
inline constexpr std::uint32_t k_item_shared = 32;       // it asks to be shared (worker_order.hpp)
inline constexpr std::uint32_t k_item_whole = 64;        // staged as ShareRole::lead, can be kept
inline constexpr std::uint32_t k_item_linked = 128;      // ShareRole::link: nothing was staged
inline constexpr std::uint32_t k_item_over_quota = 256;  // failed at its user's quota
inline constexpr std::uint32_t k_item_unsettled =
    512;  // push: some of it is left for the next time
// An output that failed by what its user can mend: permissions, quotas, names.
inline constexpr std::uint32_t k_item_users = 1024;
inline constexpr std::uint32_t k_item_spread = 2048;  // the shared tree is at kept_place()
inline constexpr std::size_t k_environment_offset = 4096;
inline constexpr std::size_t k_max_environment_bytes = 64 * 1024;
inline constexpr std::size_t k_items_offset = k_environment_offset + k_max_environment_bytes;

static_assert(sizeof(StatusHeader) == 4096 && std::is_trivially_copyable_v<StatusHeader>);
static_assert(sizeof(ItemRecord) == 4096 && std::is_trivially_copyable_v<ItemRecord>);

// Copies text into a field, truncated if necessary, always NUL-terminated.
template <std::size_t size>
void set_field(char (&field)[size], std::string_view text) {
  const std::size_t bytes = text.size() < size ? text.size() : size - 1;
  text.copy(field, bytes);
  field[bytes] = '\0';
}

// The text of a field, which may lack its NUL.
template <std::size_t size>
std::string field_text(const char (&field)[size]) {
  const std::string_view all(field, size);
  return std::string(all.substr(0, all.find('\0')));
}

// For the worker. `fd` is borrowed. write_status_header does not write the claim.
Status write_status_header(int fd, const StatusHeader& header);
// A header with nothing else in it.
Status write_status_phase(int fd, WorkerPhase phase, std::size_t items = 0,
                          std::string_view cause = {});
Status write_status_environment(int fd, const std::vector<std::string>& environment);
Status write_status_item(int fd, std::size_t index, const ItemRecord& item);

// For the daemon: a copy with every claim bounded (item count, environment size, every number of an
// item). A file that is too short or lacks the magic reads as phase `none`.
inline constexpr std::uint64_t k_largest_claim = 1ULL << 50;  // more than any node stages at once
struct WorkerStatus {
  WorkerPhase phase = WorkerPhase::none;
  std::string cause;
  std::vector<std::string> environment;  // NAME=VALUE, where NAME is NODESTAGE_[A-Z0-9_]*
  std::vector<ItemRecord> items;
  std::optional<std::size_t> failed_item;  // the index in `items` of the failure in `cause`
  std::string chosen;                      // as in the header
  std::vector<std::uint32_t> every_s;      // as in the header; empty or k_max_request_items
  std::uint32_t outputs = 0;               // as in the header; k_max_request_items at most
  std::uint16_t relay_port = 0;            // as in the header
};
Result<WorkerStatus> read_worker_status(int fd);

// DeliveryOrder::staged_ns of the workers that deliver, from the status of the one that staged.
std::vector<std::uint64_t> staged_ns(const WorkerStatus& status);

}  // namespace nodestage
