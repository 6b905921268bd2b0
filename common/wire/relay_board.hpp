// RelayBoard: memory that a job's staging worker shares with the job's relay worker on that node
// (k_worker_board_fd), and the layout of the spool beside it (k_worker_spool_fd).
//
// The relay worker gets a source's bytes once, from another node or from the shared file system,
// puts them into the spool, and passes them on. The staging worker reads them there. Both belong to
// the job's user, and neither waits for the other without a limit: whatever a slot says, a reader
// can read the original instead, from the descriptor that it has open.
//
// The spool is one sparse file on the node's local disk. Slot i of the board owns the bytes from
// i * ring_bytes to (i + 1) * ring_bytes of it, as a ring: byte `o` of the source is at
// o % ring_bytes there. [low, watermark) is what the ring holds. The relay worker raises `low`
// before it overwrites anything, so a reader that finds low <= o after its read has read what it
// wanted.
//
// A slot's way. `state` says what the relay worker does with it:
//   unused → filling → asked     the staging worker claims it (compare-and-swap) and describes a
//                                source, then raises `asks`
//   unused → serving             the relay worker, for another node that is ahead of this one
//   asked → serving              bytes come, from 0 on, or are about to
//   asked → writing              of a directory: the staging worker reads it, and fills the ring
//   asked, serving, writing → over
//                                no more will come; `why` says why. What is in the ring stays
//   serving, writing, over → unused
//                                the relay worker has recycled it
// `reader` says what the staging worker does with it:
//   none → reading               it reads (compare-and-swap, in slots that are serving, too: the
//                                same source may be there already)
//   reading → dropped            the relay worker goes on without it, since it kept others waiting
//   reading, dropped → closed    it needs the source no more. A closed slot is kept for other nodes
//                                until the relay worker needs it
//   none, closed → recycled      the relay worker takes it back (compare-and-swap)
//
// A directory comes as a stream of its entries, whose length is not known before its end. Its
// `identity.size` is a fingerprint of which entries are wanted of it, and how. The node that reads
// it copies it as it would without the relay, and its staging worker puts what it has copied into
// the ring: up to `granted`, as `written` says, until `is_ended`. On the other nodes the stream is
// read as any source is, up to `watermark` once `is_whole` is set. A directory in which something
// is beyond the bounds of a stream has none: each node copies it.
//
// Words that one side waits for by futex(2), raised by one and then woken: `asks` and `moves` by
// the staging worker, `news` by the relay worker. Who waits for the bytes before an offset is woken
// for those alone (board.hpp). `beat` is raised several times a second while the relay worker is
// alive, whatever it waits for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nodestage {

inline constexpr std::uint32_t k_relay_board_magic = 0x3272736e;  // "nsr2"
inline constexpr std::size_t k_relay_slots = 16;
inline constexpr std::size_t k_max_relay_path = 4096;  // with its NUL

enum class RelaySlotState : std::uint32_t {
  unused = 0,
  filling = 1,
  asked = 2,
  serving = 3,
  over = 4,
  writing = 5,
};

enum class RelayKind : std::uint32_t {
  file = 0,
  directory = 1,
};

enum class RelayReader : std::uint32_t {
  none = 0,
  reading = 1,
  dropped = 2,
  closed = 3,
  recycled = 4,
};

// What must be the same on two nodes for one to pass on the source to the other.
struct RelayIdentity {
  std::uint64_t size;  // bytes
  std::int64_t mtime_ns;
  std::int64_t ctime_ns;

  bool operator==(const RelayIdentity&) const = default;
};

// What became of a directory's stream.
enum class RelayStream : std::uint32_t {
  open = 0,
  ended = 1,
  none = 2,  // what there is of it counts for nothing, here and on the nodes behind
};

struct RelaySlot {
  std::atomic<std::uint32_t> state;   // RelaySlotState
  std::atomic<std::uint32_t> reader;  // RelayReader
  RelayIdentity identity;
  std::atomic<std::uint64_t> low;
  std::atomic<std::uint64_t> watermark;
  // The end of what the staging worker has read; a hint. It may still want what lies up to a
  // quarter of the ring before that.
  std::atomic<std::uint64_t> position;
  std::atomic<std::uint64_t> from_storage;  // bytes that the relay worker read itself
  std::atomic<std::uint64_t> from_nodes;    // bytes that came from another node
  char path[k_max_relay_path];              // absolute, as the staging worker opened it
  char upstream[256];                       // the node from which it comes; "": from the original
  char why[512];                            // state over; NUL-terminated
  // 1: `left` says why nothing (more) comes from another node, though one was to send it. The rest
  // comes from the original, by the relay worker.
  std::atomic<std::uint32_t> has_left;
  char left[512];
  std::atomic<std::uint32_t> kind;      // RelayKind
  std::atomic<std::uint32_t> is_ended;  // RelayStream, as the staging worker has written it
  std::atomic<std::uint32_t> is_whole;  // RelayStream, as it can be read: it ends at `watermark`
  std::atomic<std::uint64_t> granted;   // up to here the staging worker may write
  std::atomic<std::uint64_t> written;   // up to here it has written
};

// Zeros at first. The daemon makes it (memfd_create(2)) with k_relay_board_bytes.
struct RelayBoard {
  std::atomic<std::uint32_t> magic;  // k_relay_board_magic once the relay worker runs
  std::atomic<std::uint32_t> beat;
  std::atomic<std::uint32_t> asks;
  std::atomic<std::uint32_t> moves;
  std::atomic<std::uint32_t> news;
  // The staging worker sets it, once and before its first slot: slots in use at once, at most
  // k_relay_slots. A ring has order.relay_window / lanes, in whole MiB.
  std::atomic<std::uint32_t> lanes;
  std::atomic<std::uint32_t> staging_is_over;  // 1: the staging worker asks for nothing more
  std::atomic<std::uint32_t> is_off;           // 1: nothing will be relayed; `why` says why
  char why[512];
  RelaySlot slots[k_relay_slots];
  std::atomic<std::uint32_t> staging_beat;  // raised several times a second by the staging worker
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::size_t k_relay_board_bytes = (sizeof(RelayBoard) + 4095) / 4096 * 4096;

}  // namespace nodestage
