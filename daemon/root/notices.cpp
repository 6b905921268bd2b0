#include "daemon/root/notices.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_run_limit{60};

bool same_run(const WorkerOrder& a, const WorkerOrder& b) {
  return a.job == b.job && a.restart == b.restart;
}

}  // namespace

void Notices::tell(WorkerStart start, std::string label, OnTold told) {
  const std::uint32_t uid = start.order.uid;
  std::deque<Notice>& waiting = waiting_[uid];
  std::erase_if(waiting, [&start](const Notice& notice) {
    return same_run(notice.start.order, start.order);
  });
  waiting.push_back({std::move(start), std::move(label), std::move(told)});
  start_next(uid);
}

void Notices::start_next(std::uint32_t uid) {
  std::deque<Notice>& waiting = waiting_[uid];
  while (!waiting.empty() && at_work_.count(uid) == 0) {
    Notice notice = std::move(waiting.front());
    waiting.pop_front();
    // A name of its own each: an earlier one may be stuck in the kernel.
    notice.start.cgroup =
        "notice-" + std::to_string(notice.start.order.job) + "." + std::to_string(next_++);
    const Workers::Limits limits{std::chrono::seconds(config_.staging.groups_wait_s), k_run_limit,
                                 std::chrono::seconds(config_.worker.kill_wait_s)};
    const auto id = workers_.start(
        notice.start, {1, config_.worker.memory_bytes, config_.worker.pids}, limits, notice.label,
        [this, uid, label = notice.label, told = notice.told](const WorkerEnd& end) {
          at_work_.erase(uid);
          if (end.kind != WorkerEnd::Kind::ended)
            spdlog::warn("{}: the user's notice was not written: its process {}", label, end.text);
          told();
          start_next(uid);
        });
    if (id) {
      at_work_.insert(uid);
    } else {
      spdlog::error("{}: the user's notice cannot be written: {}", notice.label, id.error().what);
    }
  }
  if (waiting.empty()) waiting_.erase(uid);
}

}  // namespace nodestage
