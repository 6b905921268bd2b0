#include "daemon/root/tasks/notices.hpp"

#include <string_view>
#include <vector>

#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_run_limit{60};
constexpr std::string_view k_ended_well = "ended with code 0";  // WorkerProcess::reap()

// A notice says everything, and lines only what is new.
bool is_replaced_by(const WorkerOrder& old, const WorkerOrder& next) {
  const auto* one = std::get_if<NoticeOrder>(&old);
  const auto* other = std::get_if<NoticeOrder>(&next);
  return one != nullptr && other != nullptr && one->job == other->job &&
         one->restart == other->restart;
}

std::string name_of(const WorkerOrder& order) {
  return std::holds_alternative<NoticeOrder>(order)
             ? "the user's notice"
             : "what the job's output should say of its results";
}

}  // namespace

void Notices::write(WorkerStart start, Subject subject, OnWritten on_written) {
  const std::uint32_t uid = head_of(start.order).uid;
  std::deque<Notice>& waiting = waiting_[uid];
  std::vector<OnWritten> replaced;
  for (const Notice& notice : waiting) {
    if (is_replaced_by(notice.start.order, start.order)) replaced.push_back(notice.on_written);
  }
  std::erase_if(waiting, [&start](const Notice& notice) {
    return is_replaced_by(notice.start.order, start.order);
  });
  waiting.push_back({std::move(start), std::move(subject), std::move(on_written)});
  start_next(uid);
  for (const OnWritten& old : replaced) old(Written::no);
}

void Notices::start_next(std::uint32_t uid) {
  while (at_work_.count(uid) == 0 && waiting_.count(uid) > 0) {
    std::deque<Notice>& waiting = waiting_[uid];
    Notice notice = std::move(waiting.front());
    waiting.pop_front();
    if (waiting.empty()) waiting_.erase(uid);
    // Each has its own name: an earlier one may be stuck in the kernel.
    const std::string job = std::to_string(head_of(notice.start.order).job);
    notice.start.cgroup = "notice-" + job + "." + std::to_string(next_++);
    if (const auto id = start(notice); id) {
      at_work_.insert(uid);
    } else {
      log::error(notice.subject, "{} cannot be written: {}", name_of(notice.start.order),
                 id.error().what);
      notice.on_written(Written::no);
    }
  }
}

Result<Workers::Id> Notices::start(const Notice& notice) {
  const Workers::Limits limits{.start = std::chrono::seconds(config_.staging.groups_wait_s),
                               .run = k_run_limit,
                               .kill = std::chrono::seconds(config_.worker.kill_wait_s)};
  const auto on_end = [this, uid = head_of(notice.start.order).uid,
                       name = name_of(notice.start.order), subject = notice.subject,
                       on_written = notice.on_written](const WorkerEnd& end) {
    at_work_.erase(uid);
    const bool written = end.kind == WorkerEnd::Kind::ended && end.text == k_ended_well;
    if (!written) log::warn(subject, "{} was not written: its process {}", name, end.text);
    on_written(written ? Written::yes : Written::no);
    start_next(uid);
  };
  return workers_.start(notice.start, {1, config_.worker.memory_bytes, config_.worker.pids}, limits,
                        notice.subject, on_end);
}

}  // namespace nodestage
