// SlotFeed: gets one source into its ring, from the node before or from the original.
//
// The original is opened first, whatever the plan says: it shows whether this user may read it here
// and whether it is the same file, and the feed goes on with it, at the same offset, when the node
// before fails, refuses, sends what does not open, or is silent. Readers of the ring notice nothing
// of that.
//
// A head first looks what the file system gives it (relay_choice.hpp). If each node is to read the
// source for itself, the feed is over: so it is here, and on the nodes behind, which learn it from
// the one before them.
//
// A directory's stream cannot be continued by another node. Without a node before that has it from
// its start, this node's staging worker copies the directory and writes the stream. Once a stream
// has begun and breaks, it is over here and for those behind, who start again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/relay_choice.hpp"
#include "daemon/worker/relay/relay_message.hpp"
#include "daemon/worker/relay/spool_ring.hpp"
#include "daemon/worker/relay/upstream.hpp"
#include "daemon/worker/spool/silence.hpp"

namespace nodestage {

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
  Status feed();
  Status feed_file();
  Status feed_directory();
  Status take_from_staging();
  Status have_each_read(std::string why);
  Status check_staging(Silence& silence, std::uint32_t& beat);
  void try_upstream(const RelayPlan& plan);
  void leave(const std::string& why);
  Status pull(const RelayPlan& plan);
  Status pull_all(Upstream& upstream);
  Status follow(std::span<const std::byte> why);
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
