// SlotFeed: gets one source into its ring, from the node before or from the original.
//
// The original is opened first, whatever the plan says: it shows whether this user may read it here
// and whether it is the same file, and the feed goes on with it, at the same offset, when the node
// before fails, refuses, sends what does not open, or is silent. Readers of the ring notice nothing
// of that.
//
// A head first looks what the file system gives it. If each node is to read the
// source for itself, the feed is over: so it is here, and on the nodes behind, which learn it from
// the one before them.
//
// A directory's stream cannot be continued by another node. Without a node before that has it from
// its start, this node's staging worker copies the directory and writes the stream. Once a stream
// has begun and breaks, it is over here and for those behind, who start again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/wire/peer_note.hpp"
#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "daemon/worker/relay/spool_ring.hpp"
#include "daemon/worker/spool/board.hpp"

namespace nodestage {

// RelayChoice: whether the nodes of a job pass on a source, or each of them reads it for itself, by
// what the file system gives the node that reads first. Pure.
//
// Two questions. Would the nodes wait for the relay? Only a file system that gives one node more
// than a relay passes on is faster without it. And does the site grant the job what its nodes then
// take, all of them at that rate (relay.site_rate)? What is not known counts for the relay.
// Where several sources are read side by side, each must be fast by itself, since they may be on
// different file systems, and what they give together must be granted.
enum class RelayChoice {
  open,     // the head has not read enough
  relayed,  // one node reads it for all
  alone,    // each node reads it
};

// What the head has read so far.
struct HeadLook {
  std::uint64_t wanted;           // bytes, as of bytes_to_measure()
  std::uint64_t read;             // of the source
  std::uint64_t read_in_all;      // of all sources of the job that it reads, in the same time
  std::chrono::nanoseconds time;  // of the reads alone
};

// What a relay passes on with one core, in bytes per second.
inline constexpr std::uint64_t k_relayed_rate = 512ULL << 20;
// No file system gives one thread more: what comes faster was in this node's memory.
inline constexpr std::uint64_t k_memory_rate = 6ULL << 30;

// Returns how much of a source the head reads for a choice: an eighth, and from 8 to 64 MiB. While
// it reads, nobody may take anything out of the ring.
std::uint64_t bytes_to_measure(std::uint64_t size, std::uint64_t ring);

// `nodes`: of the job. `site_rate`: bytes per second; 0: everything is relayed. `limit`: what this
// node may read, bytes per second, of which the first bytes may see nothing; 0: no limit.
RelayChoice choose(const HeadLook& look, std::uint64_t nodes, std::uint64_t site_rate,
                   double limit = 0);

// Says why each node reads the source, in a few words for the user.
std::string alone_text(const HeadLook& look, std::uint64_t nodes);

class Upstream;

class SlotFeed {
 public:
  struct Place {
    std::size_t slot;
    std::uint64_t ring;  // bytes
    RelayKind kind = RelayKind::file;
  };
  SlotFeed(RelayBasis& basis, const Place& place, std::string path, const RelayIdentity& identity);
  SlotFeed(const SlotFeed&) = delete;
  SlotFeed& operator=(const SlotFeed&) = delete;

  // Fills the ring, in a thread of its own. Returns when all is there, no more will come, or stop()
  // was called; has_ended() is true then.
  void run();
  void stop();
  // Gives up, in place of run().
  void fail(const std::string& why);
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  // A directory is relayed, and `alone` once it turns out to have no stream. Each change raises
  // `news`.
  [[nodiscard]] RelayChoice choice() const { return choice_; }
  // Once the choice is `alone`.
  [[nodiscard]] const std::string& alone_why() const { return alone_why_; }

  [[nodiscard]] bool is_for(const RelayAsk& ask) const {
    return ask.path == path_ && ask.identity == identity_ && ask.kind == place_.kind;
  }
  [[nodiscard]] SpoolRing& ring() { return ring_; }

 private:
  Status feed_file();
  Status feed_directory();
  Status take_from_staging();
  Status have_each_read(std::string why);
  Status check_staging(Silence& silence, std::uint32_t& beat);
  void try_upstream(const RelayPlan& plan);
  void leave(const std::string& why);
  Status pull(const RelayPlan& plan);
  Status pull_all(Upstream& upstream);
  Status take(Upstream& upstream, std::span<const std::byte> data);
  Status look_and_choose(Original& original);
  void choose_for_all(RelayChoice choice);
  Status read_block(Original& original, std::vector<std::byte>& block, HeadLook& look);
  Status read_rest(Original& original);
  Result<std::uint64_t> await_room();
  void begin_serving(const std::string& upstream);
  RelaySlot& slot() { return basis_.board.slots[place_.slot]; }

  RelayBasis& basis_;
  const Place place_;
  const std::string path_;
  const RelayIdentity identity_;
  SpoolRing ring_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> has_ended_ = false;
  bool is_spool_broken_ = false;
  bool has_begun_ = false;  // something came from the node before
  std::string alone_why_;
  std::atomic<RelayChoice> choice_;
};

}  // namespace nodestage
