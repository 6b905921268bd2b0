// ReadAhead: a Source's bytes in order, which its own threads fetch in advance. Reads are long and
// several are in flight, so that a file system with a high latency (FUSE, NFS) seldom causes a
// wait. It starts with two reads and adds one at each wait: data that come from the page cache at
// once would otherwise leave the processor's caches again before they are used.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <mutex>

#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/read/buffer.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Memory: block_bytes * blocks. Consumers may hold at most `blocks` - 1 blocks; otherwise next()
// waits until one is released.
struct ReadAheadLimits {
  std::size_t block_bytes;  // of one read, a power of two
  std::size_t blocks;
  unsigned in_flight;  // maximum of reads, and threads
};

// Not movable. The destructor waits for the reads in flight: a thread that hangs in the kernel
// cannot be woken.
class ReadAhead {
 public:
  // Reads from `offset` on. The source is borrowed.
  ReadAhead(const Source& source, std::uint64_t offset, const ReadAheadLimits& limits);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  // Call it before the first next(). Refuses if no thread can be started.
  Status start();

  // Returns the next block, at the end an empty one. All blocks but the last end at a multiple of
  // block_bytes in the file. A fault comes after all blocks before it, and is repeated.
  Result<Slice> next();

  // Makes next() return stopped() from now on. Any thread.
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
  std::mutex paying_;  // only one thread waits for the rate limit, or all debts would add up

  std::mutex mutex_;                  // guards what follows
  std::condition_variable is_ready_;  // for next()
  std::condition_variable may_go_;    // for the threads
  std::size_t ahead_ = 2;             // blocks that may be started before they are wanted
  std::size_t turns_ = 0;             // threads that will take the next tickets
  Ticket begun_ = 0;                  // lower tickets were given out
  Ticket wanted_ = 0;                 // by next()
  Ticket last_ = std::numeric_limits<Ticket>::max();
  std::map<Ticket, Result<Slice>> ready_;

  ThreadGroup threads_;
};

// InputBlocks: where what is decoded comes from, in blocks.
class InputBlocks {
 public:
  InputBlocks() = default;
  InputBlocks(const InputBlocks&) = delete;
  InputBlocks& operator=(const InputBlocks&) = delete;
  virtual ~InputBlocks() = default;

  // As ReadAhead's. One thread at a time calls start() and next().
  virtual Status start() = 0;
  virtual Result<Slice> next() = 0;
  virtual void stop() = 0;
};

// SourceBlocks: a whole source file in blocks: first those that were read to recognize it, then
// what a ReadAhead fetches.
class SourceBlocks final : public InputBlocks {
 public:
  // `first` has the source's first blocks, up to its position(). The source is borrowed.
  SourceBlocks(const Source& source, std::vector<Slice> first, const ReadAheadLimits& limits);

  // Starts nothing if the source ends where `first` does.
  Status start() override;
  Result<Slice> next() override;
  void stop() override { ahead_.stop(); }

 private:
  std::deque<Slice> first_;
  bool is_all_;  // everything is in first_
  ReadAhead ahead_;
};

}  // namespace nodestage
