// OrderedParts: a decoded stream, made part by part, several at a time, and returned in order.
//
//   PartMaker (one thread at a time) → Part::work() (all threads) → next() (the consumer)
//
// The maker does what depends on earlier data: it finds where the next part begins or, if a format
// is one long chain, decodes all of it. work() does the rest.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/worker/basis/thread_group.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// Bytes before a block's data that its consumer may fill, to make blocks of round sizes.
inline constexpr std::size_t k_headroom = 512;

class Part {
 public:
  struct Block {
    BufferPool::Buffer buffer;
    std::size_t size = 0;  // of the data
    [[nodiscard]] std::span<std::byte> room() const { return buffer.memory.subspan(k_headroom); }
  };

  Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  virtual ~Part() = default;

  // Fills `blocks`, for which the maker has taken all buffers, so that earlier parts never wait for
  // buffers of later ones. On a fault, sets `fault`; the blocks then have the good data before it.
  virtual void work() {}

  // Called by the consumer when it has taken all blocks: adds blocks with what did not fit, and
  // sets `position` if they reach beyond it. None: there is no more.
  virtual void go_on() {}

  std::vector<Block> blocks;
  std::uint64_t position = 0;  // in the file, after the part
  Status fault;                // after the blocks; nothing follows it
};

class OrderedParts;

class PartMaker {
 public:
  PartMaker() = default;
  PartMaker(const PartMaker&) = delete;
  PartMaker& operator=(const PartMaker&) = delete;
  virtual ~PartMaker() = default;

  // The next part; null at the end. It may already contain a fault. One thread at a time.
  virtual std::unique_ptr<Part> make() = 0;

  // Called by the consumer for each worked part, in order: does what needs the part's neighbors.
  virtual void settle(Part& /*part*/, OrderedParts& /*behind*/) {}

  // From any thread: a call that waits in make() returns stopped().
  virtual void stop() = 0;

  // At the end: as Decoder::junk_at().
  [[nodiscard]] virtual std::optional<std::uint64_t> junk_at() const = 0;
};

// Not movable. One thread calls next() and destroys this.
class OrderedParts {
 public:
  // At most `depth` parts wait or are being worked at a time. The maker is borrowed.
  OrderedParts(PartMaker& maker, std::size_t depth) : maker_(maker), depth_(depth) {}
  OrderedParts(const OrderedParts&) = delete;
  OrderedParts& operator=(const OrderedParts&) = delete;
  ~OrderedParts();

  Status start(unsigned threads) {
    return threads_.start(threads, [this] { work(); });
  }

  // Null at the end, and after a part with a fault.
  std::unique_ptr<Part> next();

 private:
  struct Slot {
    std::unique_ptr<Part> part;
    bool is_worked = false;
  };
  void work();
  std::shared_ptr<Slot> make();
  std::shared_ptr<Slot> made_slot();
  void set_worked(Slot& slot);

  PartMaker& maker_;
  const std::size_t depth_;
  std::mutex making_;  // guards the maker

  std::mutex mutex_;  // guards what follows
  std::condition_variable room_;
  std::condition_variable worked_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool is_over_ = false;  // the maker has made the last part, or no more are wanted
  // In place of the part that could not be made: there is no memory to be had then.
  std::unique_ptr<Part> failed_ = std::make_unique<Part>();

  ThreadGroup threads_;
};

}  // namespace nodestage
