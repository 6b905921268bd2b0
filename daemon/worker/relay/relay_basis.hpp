// What all parts of one relay worker share: its order, its board, its plan, and its threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <thread>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/relay_board.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/board.hpp"

namespace nodestage {

// PeerSocket: a TCP connection to another node's relay worker, on which nothing waits without a
// limit.

using RelayClock = std::chrono::steady_clock;

class PeerSocket {
 public:
  // Takes a connected socket; `stop` is borrowed and, once set, ends every wait with stopped().
  PeerSocket(Fd fd, const std::atomic<bool>& stop);

  // `address` is numeric. The fault names address and port.
  static Result<PeerSocket> connect(const std::string& address, std::uint16_t port,
                                    RelayClock::time_point until, const std::atomic<bool>& stop);

  // Bounds the bytes that the kernel holds for each direction.
  void bound_buffers(std::uint64_t bytes);

  // Waits for bytes, and returns how many are in `into`; 0: none came by `until`. Fails with
  // ECONNRESET once the other side has closed.
  Result<std::size_t> read(std::span<std::byte> into, RelayClock::time_point until);

  // Writes all. While it waits, it asks `is_on` a few times a second, and forwards its fault.
  Status write(std::span<const std::byte> data, const std::function<Status()>& is_on);

  // Ends the writing, and waits until the other side has read all and closed. (To close with
  // something unread would throw away what is under way.)
  void finish(RelayClock::time_point until);

 private:
  Result<short> await(short events, RelayClock::time_point until);

  Fd fd_;
  const std::atomic<bool>* stop_;
};

struct RelayListener {
  Fd fd;
  std::uint16_t port = 0;
};

// Listens on one port from first to last, on all addresses; 0: any port.
Result<RelayListener> listen_for_peers(std::uint16_t first, std::uint16_t last);

// Original: a source on the file system where it lies, read with the rights of the job's user.
class Original {
 public:
  Original() = default;
  Original(const Original&) = delete;
  Original& operator=(const Original&) = delete;
  virtual ~Original() = default;

  // Reads at least one byte at `offset`, and returns how many; 0 where the source ends. Can hang as
  // long as its file system does.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;

  // The time by which it is measured how fast this file system is.
  [[nodiscard]] virtual RelayClock::time_point now() const { return RelayClock::now(); }

  // Drops what this node's memory has of the first `bytes`, so that the file system is asked for
  // them.
  virtual void forget(std::uint64_t bytes) { static_cast<void>(bytes); }
};

using OpenOriginal =
    std::function<Result<std::unique_ptr<Original>>(const std::string&, const RelayIdentity&)>;

// Refuses what is not a regular file, or not the one that the identity describes.
Result<std::unique_ptr<Original>> open_original(const std::string& path,
                                                const RelayIdentity& identity);

// Refuses what is not a directory that can be read here, or not the one that was identified.
Status check_original_directory(const std::string& path, const RelayIdentity& identity);

// Counts detached threads, since one that hangs in a file system cannot be joined.
class RelayThreads {
 public:
  // Returns false if the system allows no more threads. `work` must not throw.
  bool start(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    try {
      std::thread([this, work = std::move(work)]() mutable {
        work();
        work = nullptr;  // what it holds may need what is gone afterwards
        const std::lock_guard end(mutex_);
        if (--running_ == 0) ended_.notify_all();
      }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++running_;
    return true;
  }

  // Waits for the end of all; returns whether all have ended by `until`.
  bool await_end(RelayClock::time_point until) {
    std::unique_lock lock(mutex_);
    return ended_.wait_until(lock, until, [this] { return running_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  unsigned running_ = 0;
};

// The daemon's plan, which one thread looks for and others wait for.
class PlanReader {
 public:
  // Reads the plan from `fd`; returns whether it is known.
  bool look(int fd) {
    const std::lock_guard lock(mutex_);
    if (plan_.part != RelayPart::unknown) return true;
    if (auto plan = read_relay_plan(fd)) plan_ = std::move(*plan);
    if (plan_.part == RelayPart::unknown) return false;
    known_.notify_all();
    return true;
  }

  // Waits for the plan. RelayPart::unknown: it is not known by `until`, or `stop` was set.
  RelayPlan await(RelayClock::time_point until, const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    while (plan_.part == RelayPart::unknown && !stop && RelayClock::now() < until)
      known_.wait_for(lock, std::chrono::milliseconds(200));
    return plan_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable known_;
  RelayPlan plan_;
};

struct RelayBasis {
  const RelayOrder& order;
  RelayBoard& board;
  int spool_fd;
  RateLimit& rate;
  OpenOriginal open;
  PlanReader plan;
  RelayThreads threads;
  std::atomic<bool> stop = false;
  RelayClock::time_point begun = RelayClock::now();
  // Until then the upstream is not tried again, since it was silent.
  std::atomic<RelayClock::time_point> upstream_rests_until = RelayClock::time_point();
  std::atomic<std::uint64_t> read_in_all = 0;  // bytes of originals
  std::atomic<unsigned> slow_times = 0;        // at which readers of any source were dropped
  std::atomic<RelayClock::time_point> slow_at = RelayClock::time_point();

  [[nodiscard]] std::chrono::seconds silence() const {
    return std::chrono::seconds(order.relay.silence_wait_s);
  }
  [[nodiscard]] std::chrono::seconds patience() const {
    return std::chrono::seconds(order.relay.patience_s);
  }
  // With the readers of the next source: half as long each time that some were dropped, so that a
  // slow node costs the others little more than once.
  [[nodiscard]] std::chrono::milliseconds patience_with_readers() const {
    return std::chrono::milliseconds(patience()) / (1U << std::min(slow_times.load(), 4U));
  }
  // Readers that are dropped side by side have one cause.
  void note_slow_reader() {
    const auto now = RelayClock::now();
    if (now - slow_at.exchange(now) >= patience()) ++slow_times;
  }
  [[nodiscard]] RelayClock::time_point plan_limit() const {
    return begun + std::chrono::seconds(order.relay.answer_wait_s);
  }
};

}  // namespace nodestage
