// The messages between the SPANK plugin (or the command) and nodestaged.
//
// Transport: a SOCK_SEQPACKET unix socket; each packet is one message of at most
// k_max_message_bytes. The caller's identity is SO_PEERCRED of the connection, never a field.
//
//   u8 version (1) | u8 kind | the members of the message's struct, in their order, as in
//   common/wire/wire.hpp
//
// k_message_kinds, below the structs, has the messages: another one costs its struct, its row, and,
// if it is a request, its handler (daemon/root/front/requests.cpp). One request per connection; the
// daemon closes it.
// Golden test: tests/unit/test_protocol.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "common/result.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {

inline constexpr std::uint8_t k_protocol_version = 1;
inline constexpr std::size_t k_max_message_bytes = 128 * 1024;
inline constexpr std::uint32_t k_no_number =
    0xffffffff;  // a number that is not known or does not exist

// Numbers of Slurm's; plugin/slurm_host.cpp compares them with slurm.h.
inline constexpr std::uint32_t k_slurm_last_step = 0xfffffff0;   // SLURM_MAX_NORMAL_STEP_ID
inline constexpr std::uint32_t k_slurm_batch_step = 0xfffffffb;  // SLURM_BATCH_SCRIPT
inline constexpr std::uint32_t k_slurm_no_value = 0xfffffffe;    // NO_VAL: "no such number"

// Returns what a line about a later component has behind the node's name in the output that the
// job's components share: " (10+1)".
std::string component_mark(std::uint32_t het_job, std::uint32_t job);

// Returns a job as its user calls it: "job 12"; "job 10_3" for a task of an array, "job 10+1" for a
// component.
std::string job_name(std::uint32_t job, std::uint32_t array_job, std::uint32_t array_task,
                     std::uint32_t het_job);

// Begin::slurm_ways, bits: what slurm.conf says.
inline constexpr std::uint8_t k_at_allocation = 1;  // else the other nodes' prologs run late
inline constexpr std::uint8_t k_powers_down = 2;    // Slurm may switch the node off when it is idle

struct Begin {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;
  std::string node;
  std::uint32_t node_count = 1;
  std::uint32_t node_index = k_no_number;  // of this node in the job's list, from 0
  std::string first_node;  // of that list; empty: not known, or the list is too long for a message
  std::vector<std::string> nodes;  // that list, on the first node only
  std::uint8_t slurm_ways = k_at_allocation;
  std::uint32_t cpus = 1;  // of the job on this node
  std::string work_dir;
  std::string stdout_path;  // from slurmd: can be empty, relative, or contain % patterns
  std::string request;      // opaque; empty: only a job directory is needed
  std::uint32_t het_job = k_no_number;  // the first component of its heterogeneous job
};

struct End {
  std::uint32_t job = 0;
  std::uint32_t restart = k_no_number;  // k_no_number: Slurm did not say which run it is
  std::uint32_t exit_code = 0;          // SLURM_JOB_EXIT_CODE, a wait status
  std::uint32_t limit_s = 0;            // how long the caller can wait; 0: no limit
};

enum class WaitScope : std::uint8_t {
  node = 1,  // for this node's staging
  all = 2,   // for the staging of all the job's nodes
};
constexpr EnumRange<WaitScope> range_of(WaitScope) { return {WaitScope::node, WaitScope::all}; }

// Wait::goes_on: the step does not depend on the answer.
inline constexpr std::uint8_t k_says_all = 1;
inline constexpr std::uint8_t k_says_own = 2;  // and not what the step's first node says
inline constexpr std::uint8_t k_runs = 1;      // --stage-wait=none
inline constexpr std::uint8_t k_looks = 2;     // it only observes the job: `nodestage status`
inline constexpr std::uint8_t k_looked = 3;    // it observed, and has ended; root alone sends both

struct Wait {
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::uint8_t speaks = 0;   // 1: this caller prints, so it can receive the summary lines
  std::uint8_t goes_on = 0;  // k_runs, k_looks or k_looked
  WaitScope scope = WaitScope::all;
  std::uint32_t interval_ms = 1000;
  std::uint32_t array_job = k_no_number;
  std::uint32_t array_task = k_no_number;
  std::string job_name;
};

struct Exited {
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::uint32_t wait_status = 0;  // of the task, as from wait(2)
};

struct StatusQuery {
  std::uint32_t job = 0;
};

struct HeldQuery {};

// Asks for a held run's results to be copied below a directory; when all are copied, the daemon
// removes the held tree.
struct Recover {
  std::uint32_t job = 0;
  std::uint32_t restart = k_no_number;  // k_no_number: the only held run of the job
  std::string directory;                // absolute; created as the job's user
};

// Asks for an answer once datasets of a running job are in place on this node.
struct Await {
  std::uint32_t job = 0;
  std::uint32_t interval_ms = 1000;
  std::vector<std::string> names;  // as a user types them; none: all datasets
};

inline constexpr std::size_t k_max_await_names = 64;
inline constexpr std::size_t k_max_await_name_bytes = 256;

// Asks what this node knows of a current or past job.
struct ReportQuery {
  std::uint32_t job = 0;
};

// Asks what the cache of shared items holds on this node.
struct CacheQuery {};

// Asks for entries of the cache to be removed; the answer has a row for each that was found, and
// those that jobs use stay.
struct CacheDrop {
  std::vector<std::string> names;  // CacheRow::name; none: all that the caller may see
};

// Asks for outputs of a running job to be delivered from this node, as they are now. The answer is
// `accepted` at once if the caller does not wait; otherwise `ready` (all that they held was in
// their targets, and synced, at some moment after the request) or `failed`, with lines for each
// output.
struct Push {
  std::uint32_t job = 0;
  std::uint32_t interval_ms = 1000;
  std::uint8_t waits = 1;
  std::vector<std::string> names;  // sources of --stage-out as a user types them; none: all
};

// Asks where the job's tree is, and where mounts of users keep trees from being removed.
struct PlaceQuery {
  std::uint32_t job = 0;
  std::uint32_t restart = k_no_number;  // k_no_number: Slurm did not say which run it is
};

// Reports that the images of a job that has begun are mounted, or why not. The packet carries a
// descriptor of /dev/fuse for each, in the order of their mounts; with a fault, none.
struct ImagesMounted {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  std::string fault;  // empty: they are mounted
};

struct Accepted {};

enum class RefusalReason : std::uint8_t {
  malformed = 1,      // the message cannot be read, or has another version
  not_permitted = 2,  // this uid may not send this kind, or not for this job
  unknown_job = 3,    // the node knows nothing of the job
  busy = 4,           // an earlier run still uses the job id
  fault = 5,          // the daemon failed; `what` says how
  unknown_name = 6,   // the job has no such dataset or output; `what` lists those that it has
};
constexpr EnumRange<RefusalReason> range_of(RefusalReason) {
  return {RefusalReason::malformed, RefusalReason::unknown_name};
}

struct Refused {
  RefusalReason reason = RefusalReason::fault;
  std::string what;
};

enum class ProgressPhase : std::uint8_t {
  queued = 1,
  starting = 2,
  staging = 3,
  others = 4,  // this node is ready, others of the job are not
};
constexpr EnumRange<ProgressPhase> range_of(ProgressPhase) {
  return {ProgressPhase::queued, ProgressPhase::others};
}

struct Progress {                                 // field order on the wire:
  ProgressPhase phase = ProgressPhase::starting;  // u8
  std::uint32_t jobs_ahead = 0;                   // u32, when queued
  std::uint32_t items_done = 0;                   // u32
  std::uint32_t items = 0;                        // u32
  std::uint64_t bytes_read = 0;                   // u64, of the sources
  std::uint64_t bytes_total = 0;                  // u64, of the sources; 0: not known yet
  std::uint64_t bytes_written = 0;                // u64
  std::uint64_t files = 0;                        // u64, written so far
  std::uint64_t elapsed_ms = 0;                   // u64, since the worker started
  std::string current;                            // text, the current item; printable
  std::string directory;  // text, the job directory: for a step that does not wait
  std::string others;     // text, which nodes of the job are not ready; printable
};

struct Ready {
  std::vector<std::string> environment;  // NAME=VALUE
  std::vector<std::string> lines;        // the summary; empty for all but the first speaker
};

struct Failed {
  std::string cause;               // can have several lines; printable
  std::vector<std::string> lines;  // of the staged items; empty for all but the first speaker
};

enum class EndOutcome : std::uint8_t {
  nothing = 1,     // the daemon knew no such job
  done = 2,        // results delivered (or none requested), directory removed
  background = 3,  // still copying at the wait's limit; goes on without the caller
  held = 4,        // a result could not be delivered and is kept on the node
  lost =
      5,  // a result could not be delivered, and is lost with the directory, which the site removes
};
constexpr EnumRange<EndOutcome> range_of(EndOutcome) {
  return {EndOutcome::nothing, EndOutcome::lost};
}

struct Ended {
  EndOutcome outcome = EndOutcome::done;
  std::string what;
};

// A run of a job on this node. Texts are printable.
struct StatusRow {             // field order on the wire:
  std::uint32_t job = 0;       // u32
  std::uint32_t restart = 0;   // u32
  std::uint32_t uid = 0;       // u32
  std::string user;            // text
  std::string node;            // text
  std::string state;           // text, of a JobState (common/wire/node_report.hpp)
  std::uint64_t begun_at = 0;  // u64, seconds since 1970; 0: not known
  std::string cause;           // text, of a failure; can have several lines
  std::string others;          // text, what it waits for: here, and which nodes are not ready
  std::string kept_in;         // text, the tree in the hold area; empty: there is none
};

enum class ItemKind : std::uint8_t { dataset = 1, venv = 2, output = 3 };
constexpr EnumRange<ItemKind> range_of(ItemKind) { return {ItemKind::dataset, ItemKind::output}; }
inline constexpr Word k_item_kind_words[] = {
    {"dataset", ItemKind::dataset}, {"venv", ItemKind::venv}, {"output", ItemKind::output}};

// An item of the run in the preceding row. A worker's claims: bounded, with printable texts.
struct StatusItem {                      // field order on the wire:
  ItemKind kind = ItemKind::dataset;     // u8
  ItemState state = ItemState::waiting;  // u32
  std::uint32_t flags = 0;               // u32, as in common/wire/status_file.hpp
  std::uint64_t bytes_read = 0;          // u64, of the source
  std::uint64_t bytes_total = 0;         // u64, of the source; 0: not known
  std::uint64_t bytes_written = 0;       // u64
  std::uint64_t files = 0;               // u64, every kind of entry but directories
  std::uint64_t elapsed_ms = 0;          // u64, since the item was started
  std::string name;                      // text, <NAME> of NODESTAGE_DATASET_<NAME>
  std::string what;                      // text, "tar.gz"; empty: not known
  std::string source;                    // text
  std::string destination;               // text
  std::string note;                      // text, a warning or the cause of the failure
};

struct JobStatus {  // not a message: a row and its items
  StatusRow row;
  std::vector<StatusItem> items;
};

// Results that could not be delivered. Times are seconds since 1970.
struct HeldRow {                     // field order on the wire:
  std::uint32_t job = 0;             // u32
  std::uint32_t restart = 0;         // u32
  std::uint32_t uid = 0;             // u32
  std::string node;                  // text
  std::uint64_t since = 0;           // u64
  std::uint64_t expires = 0;         // u64
  std::uint64_t next_try = 0;        // u64; 0: no further try
  std::uint8_t is_measured = 0;      // u8
  std::uint64_t bytes = 0;           // u64, of the whole tree on disk
  std::uint64_t inodes = 0;          // u64, of the whole tree
  std::string path;                  // text
  std::vector<std::string> reasons;  // texts, what could not be delivered and why; printable
};

struct Recovered {
  std::vector<std::string> lines;
};

struct ReportRow {
  std::string report;
};

// A tree or file that further jobs of its user find on this node (common/wire/worker_order.hpp).
struct CacheRow {                  // field order on the wire:
  std::string name;                // text, "<uid>.<key>"
  std::uint32_t uid = 0;           // u32
  std::string user;                // text
  std::string what;                // text, "tar.gz"
  std::string source;              // text
  std::string path;                // text
  std::uint32_t job = 0;           // u32, that staged it
  std::uint64_t made_at = 0;       // u64, seconds since 1970
  std::uint64_t used_at = 0;       // u64, seconds since 1970: a job last began or ended to use it
  std::uint64_t bytes = 0;         // u64, as its worker claims
  std::uint64_t files = 0;         // u64, as its worker claims
  std::uint64_t source_bytes = 0;  // u64, which a further job does not read
  std::uint64_t hits = 0;          // u64, jobs that found it, since the daemon started
  std::uint32_t jobs = 0;          // u32, that use it now
  std::string fault;               // text, why it could not be removed; empty: nobody has tried
  std::uint32_t array_job = k_no_number;   // u32, with array_task what users call `job`
  std::uint32_t array_task = k_no_number;  // u32
  std::uint32_t het_job = k_no_number;     // u32, likewise
};

// Names are below `root`, the directory that holds all job directories.
struct PlaceRow {
  std::string root;
  std::vector<std::string> directories;  // of the job and of ended ones; no user may cover them
  std::string held;                      // holds results that could not be delivered
  std::vector<std::string> places;       // where nothing that a user has mounted may stay
  std::vector<std::string> workers;      // the daemon's workers of now, by their process ids
};

// What a message is in its exchange: a request opens it, any number of parts answer, the last
// answer ends it.
enum class MessageRole { request, part, last };

enum class Sender {
  root,          // slurmd's and slurmstepd's privileged hooks
  root_or_user,  // root, and the user of the job that the message names
  anyone,        // the daemon shows callers only what is theirs
};

// When the daemon answers: at once, or when what it noted of the jobs is durable.
enum class Answered { at_once, durable };

template <typename T>
struct Request {
  std::uint8_t number;
  Sender sender;
  Answered answered;
  MessageRole role = MessageRole::request;
};

template <typename T>
struct Answer {
  std::uint8_t number;
  MessageRole role;
};

// clang-format off
inline constexpr std::tuple k_message_kinds{
    Request<Begin>      {1,  Sender::root,         Answered::durable},  // accepted | refused
    Request<End>        {2,  Sender::root,         Answered::durable},  // ended | refused
    Request<Wait>       {3,  Sender::root_or_user, Answered::durable},  // progress*, ready | failed | refused
    Request<Exited>     {4,  Sender::root,         Answered::durable},  // accepted | refused
    Request<StatusQuery>{5,  Sender::anyone,       Answered::at_once},  // (status_row, status_item*)*, accepted
    Request<HeldQuery>  {6,  Sender::anyone,       Answered::at_once},  // held_row*, accepted
    Request<Recover>    {7,  Sender::root_or_user, Answered::durable},  // progress*, recovered | refused
    Request<Await>      {8,  Sender::root_or_user, Answered::at_once},  // progress*, ready | failed | refused
    Request<ReportQuery>{9,  Sender::anyone,       Answered::at_once},  // report_row*, accepted
    Request<CacheQuery> {10, Sender::anyone,       Answered::at_once},  // cache_row*, accepted
    Request<CacheDrop>  {11, Sender::anyone,       Answered::at_once},  // cache_row*, accepted
    Request<Push>       {12, Sender::root_or_user, Answered::at_once},  // accepted | progress*, ready | failed | refused
    Request<PlaceQuery> {13, Sender::root,         Answered::at_once},  // place_row | refused
    Request<ImagesMounted>    {14, Sender::root,         Answered::durable},  // accepted | refused
    Answer<Accepted>    {16, MessageRole::last},
    Answer<Refused>     {17, MessageRole::last},
    Answer<Progress>    {18, MessageRole::part},
    Answer<Ready>       {19, MessageRole::last},
    Answer<Failed>      {20, MessageRole::last},
    Answer<Ended>       {21, MessageRole::last},
    Answer<StatusRow>   {22, MessageRole::part},
    Answer<HeldRow>     {23, MessageRole::part},
    Answer<Recovered>   {24, MessageRole::last},
    Answer<StatusItem>  {25, MessageRole::part},
    Answer<ReportRow>   {26, MessageRole::part},
    Answer<CacheRow>    {27, MessageRole::part},
    Answer<PlaceRow>    {28, MessageRole::last},
};
// clang-format on

template <template <typename> typename... Rows, typename... Kinds>
std::variant<Kinds...> variant_of(const std::tuple<Rows<Kinds>...>&);
using MessageKinds = decltype(variant_of(k_message_kinds));

// What copies, moves, and destroys it is compiled in protocol.cpp alone, since each takes compilers
// seconds for so many kinds.
struct Message : MessageKinds {
  using MessageKinds::MessageKinds;
  Message();
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
};

MessageRole role_of(const Message& message);

std::string encode_message(const Message& message);

// A fault (EPROTO) for another version, an unknown kind, missing fields, or trailing bytes.
Result<Message> decode_message(std::string_view packet);

}  // namespace nodestage
