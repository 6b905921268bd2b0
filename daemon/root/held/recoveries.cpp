#include "daemon/root/held/recoveries.hpp"

#include <algorithm>
#include <utility>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/held/hold.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_progress_pause{1};

}  // namespace

void Recoveries::ask(const JobRecord& record, Ticket ticket, Reply reply,
                     const std::string& wanted) {
  const std::string directory = recovered_to(record, wanted);
  log::info(about(record), "recovery to {} starts", printable(directory));
  asked_.insert_or_assign(record.key(), Asked{ticket, std::move(reply), directory, {}});
  report_progress(record.key());
}

void Recoveries::report_progress(const JobKey& key) {
  const auto found = asked_.find(key);
  if (found == asked_.end()) return;
  found->second.timer = deps_.loop.after(k_progress_pause, [this, key] { report_progress(key); });
  if (!found->second.reply) return;
  Progress progress;
  if (deps_.workers.is_working(key, WorkerTask::recover))
    progress = progress_of(deps_.files.status(key, WorkerTask::recover));
  found->second.reply(progress);
}

void Recoveries::go_on(const JobRecord& record) {
  const JobKey key = record.key();
  if (!is_busy(key) || deps_.workers.is_working(key, WorkerTask::recover)) return;
  turns_.ask(record.begin.uid, key, [this, key] { return start(key); });
}

Turns::Begun Recoveries::start(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  const auto asked = asked_.find(key);
  if (record == nullptr || asked == asked_.end() || record->state != JobState::held)
    return Turns::Begun::no;
  const Status started = start_worker(*record, asked->second);
  if (started) return Turns::Begun::yes;
  log::error(about(*record), "recovery could not be started: {}", started.error().what);
  answer(*record, Refused{RefusalReason::fault, started.error().what});
  return Turns::Begun::failed;
}

Status Recoveries::start_worker(JobRecord& record, const Asked& asked) {
  TRY_ASSIGN(const Fd tree, deps_.files.directory(record));
  WorkerStart order = deps_.workers.order(record, WorkerTask::recover);
  std::get<RecoverOrder>(order.order).recover_to = asked.directory;
  order.directory_fd = tree.get();
  // Each has its own name: an earlier one may be stuck in the kernel.
  order.cgroup += "." + std::to_string(asked.ticket);
  return deps_.workers.start(record, order, deps_.workers.bounds(record, WorkerTask::recover),
                             [this](const JobKey& key, const WorkerEnd& end) { ended(key, end); });
}

void Recoveries::ended(const JobKey& key, const WorkerEnd& end) {
  JobRecord* record = deps_.table.find(key);
  const auto asked = asked_.find(key);
  if (record == nullptr || asked == asked_.end()) return;
  const WorkerStatus status = deps_.files.status(key, WorkerTask::recover);
  const std::vector<std::string> lines = delivery_lines(status);
  log_items(*record, "recovery: ", status, lines);
  if (status.phase == WorkerPhase::done) {
    const std::string directory = asked->second.directory;
    answer(*record, Recovered{lines});
    return on_end_(key, directory);
  }
  const std::string cause =
      status.phase == WorkerPhase::failed ? status.cause : "the process " + end.text;
  log::warn(about(*record), "recovery failed, and the results stay held: {}", cause);
  answer(*record, Refused{RefusalReason::fault, printable(cause, Newlines::keep)});
  on_end_(key, {});
}

void Recoveries::answer(const JobRecord& record, const Message& message) {
  const auto node = asked_.extract(record.key());
  if (node.empty()) return;
  Asked& asked = node.mapped();
  deps_.loop.cancel(asked.timer);
  if (asked.reply) asked.reply(message);
  turns_.end(record.begin.uid, record.key());
}

bool Recoveries::leave(Ticket ticket) {
  const auto found = std::find_if(asked_.begin(), asked_.end(),
                                  [&](const auto& item) { return item.second.ticket == ticket; });
  if (found == asked_.end()) return false;
  const JobKey key = found->first;
  found->second.reply = nullptr;
  const JobRecord* record = deps_.table.find(key);
  if (record != nullptr) log::info(about(*record), "recovery is given up: its caller went away");
  if (deps_.workers.is_working(key, WorkerTask::recover)) {
    deps_.workers.kill(key, WorkerTask::recover);
  } else if (record != nullptr) {
    answer(*record, Accepted{});
  }
  return true;
}

}  // namespace nodestage
