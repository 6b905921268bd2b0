// ReadAhead: a Source's bytes in order, fetched by threads of its own before they are asked for.
// Reads are long and several are in flight, so that a file system that takes its time for each
// (FUSE, NFS) is waited for seldom. How many begins with two and grows with each wait: what comes
// from the page cache at once would only leave the processor's caches again before it is used.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>

#include "daemon/worker/basis/thread_group.hpp"
#include "daemon/worker/read/buffer.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Memory: block_bytes * blocks. At most `blocks` - 1 blocks may be held by those who got them, or
// next() waits until one of them is let go.
struct ReadAheadLimits {
  std::size_t block_bytes;  // of one read, a power of two
  std::size_t blocks;
  unsigned in_flight;  // reads at most, and threads
};

// Not movable. Its end waits for the reads that are in flight: a thread that hangs in the kernel
// cannot be waked.
class ReadAhead {
 public:
  // Reads from `offset` on. The source is borrowed.
  ReadAhead(const Source& source, std::uint64_t offset, const ReadAheadLimits& limits);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  // Before the first next(). The fault: no thread.
  Status start();

  // The next block; empty at the end, as often as asked. All but the last one end at a multiple of
  // block_bytes of the file. A fault comes after all blocks before it, and stays.
  Result<Slice> next();

  // From any thread: next() gives stopped() from now on.
  void stop();

 private:
  using Ticket = std::uint64_t;  // counts the blocks
  void work();
  bool await_turn();
  bool begin(Ticket& ticket);
  [[nodiscard]] bool is_over() const { return is_stopped_ || begun_ > last_; }
  Result<Slice> read(Ticket ticket, const BufferPool::Buffer& buffer);
  void put(Ticket ticket, Result<Slice> block);
  [[nodiscard]] std::uint64_t offset_of(Ticket ticket) const;
  [[nodiscard]] std::size_t size_of(Ticket ticket) const;

  const Source& source_;
  const std::uint64_t offset_;
  const ReadAheadLimits limits_;
  BufferPool pool_;
  std::atomic<bool> is_stopped_ = false;
  std::mutex paying_;  // one thread waits for the rate limit, or the debts of all would add up

  std::mutex mutex_;                  // over what follows
  std::condition_variable is_ready_;  // for next()
  std::condition_variable may_go_;    // for the threads
  std::size_t ahead_ = 2;             // blocks that may be begun before they are wanted
  std::size_t turns_ = 0;             // threads that will take the next tickets
  Ticket begun_ = 0;                  // tickets below were given out
  Ticket wanted_ = 0;                 // by next()
  Ticket last_ = std::numeric_limits<Ticket>::max();
  std::map<Ticket, Result<Slice>> ready_;

  ThreadGroup threads_;
};

}  // namespace nodestage
