// OrderedParts: a decoded stream made part by part, several at a time, and given in order.
//
//   PartMaker (one thread at a time) → Part::work() (all threads) → next() (the consumer)
//
// What depends on what came before it is done by the maker: finding where the next part begins, or,
// where a format is one long chain, all of its decoding. What does not is done by work().
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

// Bytes before a block's data that its consumer may fill, to give blocks of round sizes.
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

  // Fills `blocks`, for which the maker has taken all buffers: so parts that came first never wait
  // for buffers of those that came later. At a fault, what is right before it, and `fault`.
  virtual void work() {}

  // By the consumer, when it has taken all blocks: puts in what did not fit into them. None: no
  // more.
  virtual void go_on() {}

  std::vector<Block> blocks;
  std::uint64_t position = 0;  // in the file, behind the part
  Status fault;                // behind the blocks; nothing comes after it
};

class OrderedParts;

class PartMaker {
 public:
  PartMaker() = default;
  PartMaker(const PartMaker&) = delete;
  PartMaker& operator=(const PartMaker&) = delete;
  virtual ~PartMaker() = default;

  // The next part; null at the end. It may hold a fault already. One thread at a time.
  virtual std::unique_ptr<Part> make() = 0;

  // By the consumer, for each part in order, when it is worked: what needs its neighbours.
  virtual void settle(Part& /*part*/, OrderedParts& /*behind*/) {}

  // From any thread: whoever waits in make() comes back with stopped().
  virtual void stop() = 0;

  // At the end: what the user may want to know, or "".
  [[nodiscard]] virtual const std::string& note() const = 0;
};

// Not movable. next() is one thread's, which also ends it.
class OrderedParts {
 public:
  // At most `depth` parts wait or are worked at a time. The maker is borrowed.
  OrderedParts(PartMaker& maker, std::size_t depth) : maker_(maker), depth_(depth) {}
  OrderedParts(const OrderedParts&) = delete;
  OrderedParts& operator=(const OrderedParts&) = delete;
  ~OrderedParts();

  Status start(unsigned threads) {
    return threads_.start(threads, [this] { work(); });
  }

  // Null at the end, and behind a part with a fault.
  std::unique_ptr<Part> next();

 private:
  struct Slot {
    std::unique_ptr<Part> part;
    bool is_worked = false;
  };
  void work();
  std::shared_ptr<Slot> make();
  std::unique_ptr<Part> make_part();
  void set_worked(Slot& slot);

  PartMaker& maker_;
  const std::size_t depth_;
  std::mutex making_;  // over the maker

  std::mutex mutex_;  // over what follows
  std::condition_variable room_;
  std::condition_variable worked_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool is_over_ = false;  // the maker has made the last one, or is not wanted any more

  ThreadGroup threads_;
};

}  // namespace nodestage
