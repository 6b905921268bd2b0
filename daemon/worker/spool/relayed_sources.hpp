// RelayedSources: a staging worker's side of the RelayBoard (common/wire/relay_board.hpp): which of
// its sources are relayed, and the slots in which the relay worker provides them.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/wire/worker_rules.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/board.hpp"
#include "daemon/worker/spool/silence.hpp"

namespace nodestage {

// Whether the relay worker still says something, for one thread that waits for it.
class SilenceWatch {
 public:
  using Clock = Silence::Clock;
  SilenceWatch(const RelayBoard& board, std::chrono::seconds limit)
      : board_(board), beat_(board.beat), silence_(limit) {}

  // Call it several times a second.
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
struct RelayPlace {
  RelayBoard* board;
  RelaySlot* slot;
  int spool_fd;
  std::size_t index;   // of the slot
  std::uint64_t ring;  // bytes
  std::uint64_t size;  // of the source
  std::chrono::seconds silence;
};

// One per worker. First expect() for all of its sources, then begin() or refuse(); then claim()
// from any thread. Everything is borrowed.
class RelayedSources {
 public:
  // A board that cannot be used is the reason why nothing is relayed.
  RelayedSources(const RelayRules& rules, int board_fd, int spool_fd);
  RelayedSources(const RelayedSources&) = delete;
  RelayedSources& operator=(const RelayedSources&) = delete;
  ~RelayedSources() { end(); }

  // Whether the open file, or one opened with O_PATH, is to be relayed.
  [[nodiscard]] bool qualifies(int fd, const struct stat& info);

  // Tells that the file at `path` will be read, if it qualifies. Returns whether it does.
  bool expect(const std::string& path, const struct stat& info);
  // After the last expect(): the relay worker need not stay if there is nothing for it.
  void end_if_unwanted() {
    if (!is_wanted()) end();
  }
  [[nodiscard]] bool is_wanted() const { return expected_ > 0; }
  // What the relay worker may write to the spool for the sources that are expected.
  [[nodiscard]] std::uint64_t spool_bytes() const;
  // What the spool takes of the local disk now.
  [[nodiscard]] std::uint64_t spool_taken() const;

  // `at_once`: sources that are read side by side.
  void begin(std::size_t at_once);
  // Nothing will be relayed, for this reason.
  void refuse(const std::string& why);

  // A slot for a source that qualifies; waits for one within the limits of the order. Nothing: the
  // original is to be read, and `why` says why; or the worker stops.
  std::optional<RelayPlace> claim(const std::string& path, const struct stat& info,
                                  const Meter& meter, std::string& why);

  // The relay worker was silent for too long: nobody waits for it any more, unless it comes back.
  void lose();

  // The local disk is needed for something else: nothing is relayed from now on, on this node and
  // for those behind it. Waits for patience_s at most until the relay worker has emptied the
  // spool. Returns whether there is room now that the spool could have taken.
  bool turn_off(const std::string& why, const std::atomic<bool>& stop);

  // Tells the relay worker that nothing more is asked for.
  void end();

 private:
  [[nodiscard]] std::string reason();
  [[nodiscard]] bool is_lost() const;
  std::optional<std::size_t> take_slot(const std::string& path, const RelayIdentity& identity);
  bool join(RelaySlot& slot, const std::string& path, const RelayIdentity& identity);
  bool ask(RelaySlot& slot, const std::string& path, const RelayIdentity& identity);
  [[nodiscard]] RelayPlace place(std::size_t index, std::uint64_t size) const;

  const RelayRules& rules_;
  const int spool_fd_;
  std::optional<Board> board_;
  std::string refused_;  // why nothing is relayed; "": it is
  std::size_t expected_ = 0;
  std::uint64_t expected_bytes_ = 0;
  std::uint32_t lanes_ = 0;
  std::atomic<bool> has_ended_ = false;
  std::map<std::string, bool> mounts_;  // by number: whether their type is in the list

  std::mutex mutex_;  // over claims
  // The beat at which the relay worker was given up; above 32 bits: it was not.
  static constexpr std::uint64_t k_never = ~std::uint64_t{0};
  std::atomic<std::uint64_t> lost_at_ = k_never;
};

inline constexpr char k_relay_is_silent[] = "the process that relays does not answer";

// A text of the board or a slot, made printable; `otherwise` if there is none.
std::string board_text(const char* text, std::size_t bytes, const char* otherwise);

}  // namespace nodestage
