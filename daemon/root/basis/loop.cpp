#include "daemon/root/basis/loop.hpp"

#include <sys/epoll.h>

#include <algorithm>

#include "common/os/wall_clock.hpp"

namespace nodestage {
namespace {

// An event can be about a descriptor that an earlier callback of the same round closed, and whose
// number belongs to another descriptor by then.
std::uint64_t mark_of(int fd, std::uint32_t number) {
  return std::uint64_t{number} << 32 | static_cast<std::uint32_t>(fd);
}

}  // namespace

Result<Loop> Loop::create() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error("epoll_create1");
  return Loop(std::move(epoll));
}

Status Loop::watch(int fd, Callback ready) {
  const std::uint32_t number = next_watched_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = mark_of(fd, number);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error("epoll_ctl");
  watched_[fd] = std::make_shared<Watched>(Watched{number, std::move(ready), {}});
  return {};
}

Status Loop::want_write(int fd, Callback writable) {
  const std::shared_ptr<Watched> watched = watched_.at(fd);
  epoll_event event{};
  event.events = writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = mark_of(fd, watched->number);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) return system_error("epoll_ctl");
  watched->writable = std::move(writable);
  return {};
}

void Loop::forget(int fd) {
  if (watched_.erase(fd) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Loop::TimerId Loop::after(std::chrono::milliseconds delay, Callback due) {
  const TimerId id{now() + delay, next_timer_++};
  timers_.emplace(id, std::move(due));
  return id;
}

std::uint64_t Loop::wall_ms() const {
  return nodestage::wall_ms() + static_cast<std::uint64_t>(ahead_.count());
}

void Loop::cancel(TimerId timer) { timers_.erase(timer); }

void Loop::cancel(std::optional<TimerId>& timer) {
  if (timer) cancel(*timer);
  timer.reset();
}

int Loop::milliseconds_to_next_timer() const {
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first.first - now();
  const auto rounded_up = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<long>(rounded_up, 0, 60'000));
}

// Only timers that are due now. Those that they set wait for the next round, so that descriptors
// get their turn.
void Loop::run_due_timers() {
  const TimerId last{now(), next_timer_};
  while (!stopped_ && !timers_.empty() && timers_.begin()->first < last) {
    const auto node = timers_.extract(timers_.begin());
    node.mapped()();
  }
}

void Loop::handle(std::uint64_t mark, std::uint32_t events) {
  const int fd = static_cast<int>(mark & 0xffffffff);
  const auto found = watched_.find(fd);
  if (found == watched_.end() || mark_of(fd, found->second->number) != mark) return;
  const std::shared_ptr<Watched> watched = found->second;
  if ((events & EPOLLOUT) != 0 && watched->writable) Callback(watched->writable)();
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && watched_.count(fd) > 0)
    watched->ready();
}

Status Loop::run() {
  while (!stopped_) {
    epoll_event events[64];
    const int count =
        ::epoll_wait(epoll_.get(), events, std::size(events), milliseconds_to_next_timer());
    if (count < 0 && errno != EINTR) return system_error("epoll_wait");
    for (int i = 0; i < count && !stopped_; ++i) handle(events[i].data.u64, events[i].events);
    run_due_timers();
  }
  stopped_ = false;
  return {};
}

}  // namespace nodestage
