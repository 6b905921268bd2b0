// The status file: how a worker tells the daemon what it does.
//
// One file per job and worker kind, made by the daemon in the hidden `.nodestage` directory beside
// the job directories and passed to the worker as an open descriptor. The worker overwrites
// fixed-size records in place with pwrite; the daemon reads them when somebody asks and when the
// worker has ended. A file and not a pipe, so that a restarted daemon knows all that an adopted
// worker has said. What it holds was written with the rights of the job's user: every number is a
// claim and every text is bounded and made printable before it goes anywhere.
//
//   offset 0                              StatusHeader
//   k_environment_offset                  environment: NAME=VALUE, NUL-terminated each
//   k_items_offset + i * sizeof(ItemRecord)   ItemRecord i
//
// Native byte order: writer and reader are on one host. A reader may see a record half-updated
// while the worker lives (progress only); after the worker's end it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/enum_range.hpp"
#include "common/result.hpp"
#include "common/wire/request_limits.hpp"
#include "common/wire/space_claim.hpp"

namespace nodestage {

inline constexpr std::uint32_t k_status_magic = 0x3167736e;  // "nsg1"

enum class WorkerPhase : std::uint32_t {
  none = 0,      // nothing written yet
  starting = 1,  // the worker runs, items are not known yet
  working = 2,
  ready = 3,   // all that the job waits for is in place; `async` items may go on
  done = 4,    // ended well
  failed = 5,  // ended, `cause` says why
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

struct StatusHeader {
  std::uint32_t magic;
  std::uint32_t phase;  // WorkerPhase
  std::uint32_t items;  // how many ItemRecords are valid
  std::uint32_t environment_bytes;
  char cause[4012];           // NUL-terminated; lines separated by '\n'
  std::uint32_t failed_item;  // whose failure `cause` tells, from 1 on; 0: of none, or not known
  SpaceClaim claim;           // written on its own: common/wire/space_claim.hpp
};

struct ItemRecord {
  std::uint32_t state;        // ItemState
  std::uint32_t flags;        // k_item_async | k_item_optional | k_item_final | k_item_venv |
                              // k_item_missing
  std::uint64_t bytes_read;   // of the source
  std::uint64_t bytes_total;  // of the source; 0: unknown
  std::uint64_t bytes_written;
  std::uint64_t files;  // every kind of entry but directories
  std::uint64_t elapsed_ms;
  char what[48];      // "tar.gz", "directory", "file", "zip", "3 archives"; NUL-terminated
  char source[1024];  // for display, shortened in the middle when longer
  char destination[1024];
  char name[256];   // of a dataset: the <NAME> of NODESTAGE_DATASET_<NAME>
  char note[1672];  // a warning or the cause of the failure
  // Milliseconds since 1970; 0: not (yet), or not known.
  std::uint64_t begun_ms;
  std::uint64_t read_to_ms;  // of the last byte that was read from the source
  std::uint64_t ended_ms;
};

// `waiting` for what is no state.
inline ItemState state_of(const ItemRecord& item) {
  return to_enum<ItemState>(item.state).value_or(ItemState::waiting);
}

// The worker is not done with it.
inline bool is_unfinished(const ItemRecord& item) {
  const ItemState state = state_of(item);
  return state == ItemState::waiting || state == ItemState::working;
}

// In a file of the first release `cause` had these four bytes, too: zeros but after the very
// longest.
static_assert(offsetof(StatusHeader, failed_item) == 4028);

inline constexpr std::uint32_t k_item_async = 1;
inline constexpr std::uint32_t k_item_optional = 2;
inline constexpr std::uint32_t k_item_final = 4;     // failed, and no further try can help
inline constexpr std::uint32_t k_item_venv = 8;      // an environment
inline constexpr std::uint32_t k_item_missing = 16;  // an output whose source is not there
inline constexpr std::size_t k_environment_offset = 4096;
inline constexpr std::size_t k_max_environment_bytes = 64 * 1024;
inline constexpr std::size_t k_items_offset = k_environment_offset + k_max_environment_bytes;

static_assert(sizeof(StatusHeader) == 4096 && std::is_trivially_copyable_v<StatusHeader>);
static_assert(sizeof(ItemRecord) == 4096 && std::is_trivially_copyable_v<ItemRecord>);

// Copies text into a field, shortened if need be, always NUL-terminated.
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

// Worker's side. fd is borrowed. The header is written without its claim.
Status write_status_header(int fd, const StatusHeader& header);
Status write_status_environment(int fd, const std::vector<std::string>& environment);
Status write_status_item(int fd, std::size_t index, const ItemRecord& item);

// Daemon's side: a copy with every claim bounded (item count, environment size, every number of an
// item). A file too short or without the magic reads as phase `none`.
inline constexpr std::uint64_t k_largest_claim = 1ULL << 50;  // no node does so much at once
struct WorkerStatus {
  WorkerPhase phase = WorkerPhase::none;
  std::string cause;
  std::vector<std::string> environment;  // only NAME=VALUE with NAME of NODESTAGE_[A-Z0-9_]*
  std::vector<ItemRecord> items;
  std::optional<std::size_t> failed_item;  // of `items`: the one whose failure `cause` tells
};
Result<WorkerStatus> read_worker_status(int fd);

}  // namespace nodestage
