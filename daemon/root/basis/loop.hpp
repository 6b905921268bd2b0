// Loop: one thread, one epoll set, a list of timers, and the clocks. Everything in the daemon runs
// in its callbacks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

using Clock = std::chrono::steady_clock;

class Loop {
 public:
  using Callback = std::function<void()>;
  using TimerId = std::pair<Clock::time_point, std::uint64_t>;

  static Result<Loop> create();

  // Calls `ready` whenever fd can be read or was hung up, until forget(fd). fd is borrowed; forget
  // it before you close it. A callback may forget any fd, its own included.
  Status watch(int fd, Callback ready);
  // For a watched fd: also calls `writable` whenever fd can be written to. {} stops that.
  Status want_write(int fd, Callback writable);
  void forget(int fd);

  // Calls `due` once. A timer that is set in a timer's callback runs in a later round.
  TimerId after(std::chrono::milliseconds delay, Callback due);
  void cancel(TimerId timer);
  // Cancels it, if there is one, and resets it.
  void cancel(std::optional<TimerId>& timer);

  // The time by which timers are due, and the wall clock, for what outlives the daemon:
  // milliseconds and seconds since 1970.
  [[nodiscard]] Clock::time_point now() const { return Clock::now() + ahead_; }
  [[nodiscard]] std::uint64_t wall_ms() const;
  [[nodiscard]] std::uint64_t wall_s() const { return wall_ms() / 1000; }
  // For tests: puts both clocks forward.
  void advance(std::chrono::milliseconds time) { ahead_ += time; }

  // Runs until stop() and may be called again after that. Only epoll itself can cause a fault.
  Status run();
  void stop() { stopped_ = true; }

 private:
  explicit Loop(Fd epoll) : epoll_(std::move(epoll)) {}
  [[nodiscard]] int milliseconds_to_next_timer() const;
  void run_due_timers();

  struct Watched {
    std::uint32_t number;  // distinguishes it from an earlier descriptor with the same fd
    Callback ready;
    Callback writable;
  };
  void handle(std::uint64_t mark, std::uint32_t events);

  Fd epoll_;
  std::map<int, std::shared_ptr<Watched>> watched_;
  std::map<TimerId, Callback> timers_;
  std::uint64_t next_timer_ = 0;
  std::uint32_t next_watched_ = 0;
  std::chrono::milliseconds ahead_{0};  // of the machine's clocks
  bool stopped_ = false;
};

}  // namespace nodestage
