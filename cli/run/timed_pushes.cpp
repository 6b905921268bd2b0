#include "cli/run/timed_pushes.hpp"

#include <algorithm>

#include "cli/base/worker_watch.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_push_look{1};
constexpr std::chrono::hours k_no_hurry{1};

}  // namespace

TimedPushes::TimedPushes(const StageRequest& request, const PushDirectory* place, int directory_fd,
                         Say say, Deadline now)
    : place_(place), directory_fd_(directory_fd), say_(std::move(say)), no_earlier_(now) {
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const std::chrono::seconds interval(request.outputs[i].every_s);
    if (interval.count() != 0) timers_.push_back({1ULL << i, interval, now + interval});
  }
}

std::chrono::milliseconds TimedPushes::patience(Deadline now) const {
  std::chrono::milliseconds least = k_no_hurry;
  if (worker_) return least;
  for (const Timer& timer : timers_) {
    const auto left = std::max(timer.due, no_earlier_) - now;
    // The next whole millisecond: not a moment before it is due.
    least = std::min(least, std::chrono::ceil<std::chrono::milliseconds>(left));
  }
  return std::max(least, std::chrono::milliseconds(0));
}

void TimedPushes::step(Deadline now) {
  if (worker_ && !worker_->has_ended()) return;
  if (worker_) note_end();
  const bool is_due = std::any_of(timers_.begin(), timers_.end(),
                                  [now](const Timer& timer) { return timer.due <= now; });
  if (is_due && no_earlier_ <= now) start(now);
}

void TimedPushes::start(Deadline now) {
  auto turn = place_->take_turn();
  if (turn && !*turn) {
    no_earlier_ = now + k_push_look;
    return;
  }
  PushOrder order{place_->order(), false, 0, {}, false};
  for (Timer& timer : timers_) {
    if (timer.due > now) continue;
    order.push_items |= timer.bit;
    timer.due = now + timer.interval;
  }
  if (!turn) return note_failure("\n" + turn.error().text());
  auto worker = place_->start(std::move(**turn), order, directory_fd_);
  if (!worker) return note_failure("\n" + worker.error().text());
  worker_.emplace(std::move(*worker));
}

// A file that was being written at that moment is no failure: it is delivered the next time.
void TimedPushes::note_end() {
  const auto status = end_of_worker(*worker_, WorkerTask::push);
  worker_.reset();
  if (!status) return note_failure("\n" + status.error().text());
  if (status->phase == WorkerPhase::done) {
    has_failed_ = false;
    return;
  }
  std::string lines;
  for (const std::string& line : push_lines(*status)) lines += "\n" + line;
  note_failure(lines);
}

void TimedPushes::note_failure(const std::string& lines) {
  if (!std::exchange(has_failed_, true))
    say_("results could not be delivered while the command runs; it is tried again:" + lines);
}

}  // namespace nodestage
