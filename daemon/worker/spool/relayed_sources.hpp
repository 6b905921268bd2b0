// RelayedSources: a staging worker's side of the RelayBoard (common/wire/relay_board.hpp): which of
// its sources are relayed, and the slots in which the relay worker provides them.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "common/wire/worker_order.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/board.hpp"

namespace nodestage {

// Watches whether the relay worker is alive, for one thread that waits for it.
class SilenceWatch {
 public:
  using Clock = Silence::Clock;
  SilenceWatch(const RelayBoard& board, std::chrono::seconds limit)
      : board_(board), beat_(board.beat), silence_(limit) {}

  // Returns whether it was silent for too long. Call it several times a second.
  bool is_silent() {
    if (const std::uint32_t now = board_.beat; now != beat_) {
      beat_ = now;
      silence_.heard();
    }
    return silence_.is_too_long();
  }

 private:
  const RelayBoard& board_;
  std::uint32_t beat_;
  Silence silence_;
};

// A source in a slot of the board that this worker reads. Trivially copyable; borrows all.
struct RelayContext {
  RelayBoard* board;
  RelaySlot* slot;
  int spool_fd;
  std::size_t index;   // of the slot
  std::uint64_t ring;  // bytes
  std::uint64_t size;  // of the source
  std::chrono::seconds silence;
};

// One per worker. Call expect() for all of its sources first, then begin() or refuse(), then
// claim() from any thread. Borrows everything.
class RelayedSources {
 public:
  // A board that cannot be used is the reason why nothing is relayed.
  RelayedSources(const RelayRules& rules, int board_fd, int spool_fd);
  RelayedSources(const RelayedSources&) = delete;
  RelayedSources& operator=(const RelayedSources&) = delete;
  ~RelayedSources() { end(); }

  // Returns whether the file or directory, open or opened with O_PATH, is one to relay.
  [[nodiscard]] bool qualifies(int fd, const struct stat& info, std::uint64_t whole = 0);

  // Notes that the file or directory at `path` will be read, if it qualifies. Returns whether it
  // does. One part of a file qualifies by the size of the whole, unless it is small.
  bool expect(const std::string& path, const struct stat& info, std::uint64_t whole = 0);
  // Call it after the last expect(). Dismisses the relay worker if there is nothing for it.
  void end_if_unwanted() {
    if (!is_wanted()) end();
  }
  [[nodiscard]] bool is_wanted() const { return expected_ > 0; }
  // The spool for the sources that are expected. `least`: with the smallest rings that are worth
  // it, which nodes that come late find without a beginning. How much a directory has is not known:
  // it counts as a whole ring.
  enum class SpoolSize { whole, least };
  // Returns the bytes that the relay worker may write to it.
  [[nodiscard]] std::uint64_t spool_bytes(SpoolSize size = SpoolSize::whole) const;
  // Returns what the spool takes of the local disk now.
  [[nodiscard]] std::uint64_t spool_taken() const;

  // Starts the relay. `at_once` is the number of sources that are read side by side. Parts of files
  // get more and smaller rings, which hold as many of them for nodes that come late.
  void begin(std::size_t at_once, SpoolSize size = SpoolSize::whole);
  // How many slots one of the sources that are read side by side may take, if it has parts.
  [[nodiscard]] std::size_t share() const { return share_; }
  // Relays nothing, for this reason.
  void refuse(const std::string& why);

  // Returns a slot for a source that qualifies, for which it waits within the limits of the order.
  // Returns nothing if the original must be read, and sets `why`; or if the worker stops.
  struct Wanted {
    const std::string& path;
    RelayIdentity identity;
    RelayKind kind;
  };
  std::optional<RelayContext> claim(const Wanted& wanted, const Meter& meter, std::string& why);

  // Shows the relay worker that this process lives. Call it several times a second.
  void beat() {
    if (board_) ++(*board_)->staging_beat;
  }

  // Gives up the relay worker, which was silent for too long, until it comes back.
  void lose();

  // Ends the relay on this node and for those behind it, for `why`. Waits for relay_patience_s at
  // most until the relay worker has emptied the spool. Returns whether that gave room.
  bool turn_off(const std::string& why, const std::atomic<bool>& stop);

  // Reports to the relay worker that nothing more is asked for.
  void end();

 private:
  [[nodiscard]] bool may_be_relayed(const struct stat& info, std::uint64_t whole) const;
  [[nodiscard]] std::uint64_t most_lanes() const;
  [[nodiscard]] std::uint64_t lanes_for_parts() const;
  [[nodiscard]] std::uint64_t least_ring() const;
  [[nodiscard]] std::string reason();
  [[nodiscard]] bool is_lost() const;
  std::optional<std::size_t> take_slot(const Wanted& wanted);
  bool join(RelaySlot& slot, const Wanted& wanted);
  bool ask(RelaySlot& slot, const Wanted& wanted);
  [[nodiscard]] RelayContext place(std::size_t index, std::uint64_t size) const;

  const RelayRules& rules_;
  const int spool_fd_;
  std::optional<Board> board_;
  std::string refused_;  // why nothing is relayed; "": it is
  std::size_t expected_ = 0;
  std::size_t expected_parts_ = 0;  // of these, parts of files
  std::uint64_t largest_part_ = 0;
  std::uint64_t expected_bytes_ = 0;
  std::uint64_t least_bytes_ = 0;  // of the spool
  std::uint32_t lanes_ = 0;
  std::size_t share_ = 1;
  std::atomic<bool> has_ended_ = false;
  std::map<std::string, bool> mounts_;  // by number: whether their type is in the list

  std::mutex mutex_;  // over claims
  // The beat at which the relay worker was given up; above 32 bits: it was not.
  static constexpr std::uint64_t k_never = ~std::uint64_t{0};
  std::atomic<std::uint64_t> lost_at_ = k_never;
};

// Of a part of a file, in bytes: a slot for a smaller one takes longer than to read it.
inline constexpr std::uint64_t k_least_of_whole = 1ULL << 20;

inline constexpr char k_relay_is_silent[] = "the process that relays does not answer";
inline constexpr char k_relay_lagged[] = "this node was slower than the others";

// Returns a text of the board or a slot, made printable; `otherwise` if there is none.
std::string board_text(const char* text, std::size_t bytes, const char* otherwise);

}  // namespace nodestage
