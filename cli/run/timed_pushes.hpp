// TimedPushes: delivers the outputs with the key `every` while the command of `nodestage run` runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/push_directory.hpp"
#include "common/request/request.hpp"
#include "common/wire/daemon_client.hpp"

namespace nodestage {

// One push at a time, in turns with `nodestage push`. Reports a failure once, and again only after
// a success: it does not stop the command.
class TimedPushes {
 public:
  using Say = std::function<void(const std::string&)>;

  // The first delivery of an output is due one interval after `now`. Borrows `place` and
  // `directory_fd`, the job directory.
  TimedPushes(const StageRequest& request, const PushDirectory* place, int directory_fd, Say say,
              Deadline now);

  // Returns how long nothing needs to be done, except at a SIGCHLD.
  [[nodiscard]] std::chrono::milliseconds patience(Deadline now) const;

  // Starts a worker for what is due, and says how one has ended. Never blocks.
  void step(Deadline now);

  // Kills a push under way.
  void stop() { worker_.reset(); }

 private:
  struct Timer {
    std::uint64_t bit;  // of PushOrder::push_items
    std::chrono::seconds interval;
    Deadline due;
  };
  void start(Deadline now);
  void note_end();
  void note_failure(const std::string& lines);  // each after a newline

  const PushDirectory* place_;
  int directory_fd_;
  Say say_;
  std::vector<Timer> timers_;
  Deadline no_earlier_;  // than this, since another push has its turn
  std::optional<WorkerChild> worker_;
  bool has_failed_ = false;
};

}  // namespace nodestage
