// ItemRelay: what became of the relay of one item's sources, for its record and its note.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "common/result.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"

namespace nodestage {

// What the relay worker got of a source so far, as its slot had it last.
struct RelayedBytes {
  // Adds what is new in the slot to the meter.
  void count(const RelaySlot& slot, Meter& meter);

  std::uint64_t from_storage = 0;
  std::uint64_t from_nodes = 0;
  std::string node;  // from which they came; "": it is not known
};

// RelayedSource: one source that the relay worker provides in a slot of the board: which bytes of
// it are read from the spool, which are waited for, and which are read from the original.

// For any thread. It adds to the meter what the slot says the relay worker got from where.
//
// A read that lies far ahead of the others waits while they go on, and reads the original when they
// do not: the relay worker gets no further than ring_ahead() beyond the last of them.
class RelayedSource {
 public:
  // `sources` and `meter` are borrowed. Reading begins at `offset`.
  RelayedSource(const RelayContext& place, RelayedSources& sources, Meter& meter,
                std::uint64_t offset);
  RelayedSource(const RelayedSource&) = delete;
  RelayedSource& operator=(const RelayedSource&) = delete;
  ~RelayedSource() { static_cast<void>(close()); }

  // Returns how much of a read of `bytes` to pass to fetch() at once.
  [[nodiscard]] std::size_t part(std::size_t bytes) const { return std::min(bytes, part_); }
  [[nodiscard]] std::uint64_t size() const { return place_.size; }

  // Fills `into`, a part within the source, from the spool, or waits for it. Returns false if the
  // caller must read the original and then call read_original(). The fault is stopped(): the worker
  // stops, `given_up` was set, or the source was closed.
  Result<bool> fetch(std::uint64_t offset, std::span<std::byte> into,
                     const std::atomic<bool>& given_up);
  void read_original(std::uint64_t offset, std::size_t bytes);

  // Declares that nothing before `offset` will be read any more.
  void skip_to(std::uint64_t offset);

  // close() gives the slot back once no thread reads from it. fetch() fails from then on.
  struct Outcome {
    std::uint64_t from_nodes;
    std::string node;  // from which they came; "": it is not known
    std::string why;   // why anything was read from the original that should not be; "": nothing
  };
  Outcome close();

 private:
  using Clock = std::chrono::steady_clock;
  class Turn;
  enum class Choice { original, wait_near, wait_far };
  bool take(std::uint64_t offset, std::span<std::byte> into);
  [[nodiscard]] bool is_there(std::uint64_t offset, std::size_t bytes) const;
  bool read_ring(std::uint64_t offset, std::span<std::byte> into);
  Choice choose(std::uint64_t offset, std::size_t bytes, const std::string& ended);
  [[nodiscard]] bool is_near(std::uint64_t end) const;
  void give_up(const std::string& why);
  void publish();
  void count();

  const RelayContext place_;
  RelayedSources& sources_;
  Meter& meter_;
  const std::size_t part_;
  std::atomic<bool> is_closed_ = false;

  std::mutex mutex_;  // over what follows
  std::condition_variable idle_;
  std::multiset<std::uint64_t> turns_;  // where threads read from the spool or wait
  std::size_t waiting_near_ = 0;
  std::uint64_t highest_;   // the end of what was read in order
  std::uint64_t position_;  // as in the slot
  Clock::time_point moved_ = Clock::now();
  std::string lost_;  // why nothing is waited for any more; "": it is
  std::string why_;   // of what was read from the original and should not have been
  std::string left_;  // why the relay read from the original, and not from the node before
  RelayedBytes bytes_;
};

// RelayedTree: a directory in a slot of the board (common/wire/relay_board.hpp): the stream of what
// is in it, which this node either writes for the others or reads.
// For one thread at a time. It adds to the meter what came from other nodes.
class RelayedTree {
 public:
  // Takes the place of a directory. Borrows `sources` and `meter`.
  RelayedTree(const RelayContext& place, RelayedSources& sources, Meter& meter)
      : place_(place), sources_(sources), meter_(meter) {}
  RelayedTree(const RelayedTree&) = delete;
  RelayedTree& operator=(const RelayedTree&) = delete;
  ~RelayedTree() { static_cast<void>(close()); }

  enum class Part {
    alone,   // nothing is relayed: this node reads the directory for itself
    writes,  // it reads the directory, and writes the stream for the others
    reads,   // the stream comes from another node
  };
  // Waits until it is known what this node does. The fault is stopped().
  Result<Part> await_part();

  // Part::writes. Appends to the stream, and waits for room. Returns false if the stream is given
  // up, which is no fault of the copy.
  bool write(std::span<const std::byte> data);
  // Completes the stream. Without it, close() breaks it.
  void end();
  // What is in the directory cannot be in a stream: no node behind this one asks for another. To be
  // called before close().
  void refuse();

  // Part::reads. Reads what comes next, at least one byte; 0: the stream is complete. After a
  // fault, has_broken() says whether this node must read the directory itself, and is_refused()
  // whether another try would find no stream, either.
  Result<std::size_t> read(std::span<std::byte> into);
  [[nodiscard]] bool has_broken() const { return has_broken_; }
  [[nodiscard]] bool is_refused() const { return is_refused_; }

  // Gives the slot back.
  RelayedSource::Outcome close();

 private:
  Error broken(const std::string& why);
  bool is_silent(SilenceWatch& watch);
  Result<std::size_t> take(std::span<std::byte> into);
  bool put(std::span<const std::byte>& data, std::uint64_t granted);

  const RelayContext place_;
  RelayedSources& sources_;
  Meter& meter_;
  std::uint64_t position_ = 0;
  RelayedBytes bytes_;
  std::string why_;
  bool has_broken_ = false;
  bool is_refused_ = false;
  bool is_closed_ = false;
};

// For any thread. Borrows everything.
class ItemRelay {
 public:
  // `sources` is null if nothing is relayed.
  ItemRelay(RelayedSources* sources, Meter& meter) : sources_(sources), meter_(meter) {}
  ItemRelay(const ItemRelay&) = delete;
  ItemRelay& operator=(const ItemRelay&) = delete;

  // Asks for the relay of an open source that is read next, from `offset` on. Returns null if the
  // original must be read. `whole`: of a part of a file, the size of all of it.
  std::unique_ptr<RelayedSource> begin(const std::string& path, int fd, const struct stat& info,
                                       std::uint64_t offset, std::uint64_t whole = 0);

  // How many begun sources of this item can be open at once, or the next one waits.
  [[nodiscard]] std::size_t share() const { return sources_ != nullptr ? sources_->share() : 1; }

  // The same for a directory; `wanted` is a fingerprint of what is wanted of it (relay_board.hpp).
  std::unique_ptr<RelayedTree> begin_directory(const std::string& path, int fd,
                                               const struct stat& info, std::uint64_t wanted);

  // Call it when a source of begin() or begin_directory() is closed.
  void add(const RelayedSource::Outcome& outcome);

  // Returns whether a relay was asked for any source of this item.
  [[nodiscard]] bool was_asked() const;

  // Returns a text for the user: where the data came from instead, or from which node; or "".
  [[nodiscard]] std::string note() const;

 private:
  bool may_ask(int fd, const struct stat& info, std::uint64_t whole = 0);

  RelayedSources* const sources_;
  Meter& meter_;
  mutable std::mutex mutex_;  // over what follows
  bool was_asked_ = false;
  std::string node_;  // from which most came
  std::uint64_t from_node_ = 0;
  std::string why_;  // the first reason for reading the original
};

}  // namespace nodestage
