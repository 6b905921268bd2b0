// Staging: what a worker reports while it stages, and when it has ended.
#include <algorithm>
#include <utility>
#include <vector>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/staging/staging.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_tick{5};
constexpr std::chrono::milliseconds k_report_poll{120};

// The source of the item for which the job fails; "" if it does not fail for an item.
std::string failed_source(const WorkerStatus& status) {
  return status.failed_item ? field_text(status.items[*status.failed_item].source) : "";
}

// Why a job fails whose worker ended without reporting a cause.
Error cause_of_end(const WorkerEnd& end) {
  switch (end.kind) {
    case WorkerEnd::Kind::over_limit:
      return {0, "the staging " + end.text + " and was stopped",
              "Ask for less data, or ask your administrators (staging.limit in nodestaged.toml on "
              "this node)."};
    case WorkerEnd::Kind::no_memory:
      return {
          0, "the staging process " + end.text,
          "Pack the data so that less is needed to unpack them (xz -6, zstd without --long), or "
          "ask your administrators."};
    case WorkerEnd::Kind::job_memory:
      return {0, "the staging " + end.text + ", in which the data of in=memory count",
              "Ask for more memory (--mem=SIZE), or leave out in=memory: the data go to the node's "
              "local disk then."};
    case WorkerEnd::Kind::not_started:
    case WorkerEnd::Kind::step_gone:
    case WorkerEnd::Kind::done:
    case WorkerEnd::Kind::ended:
    case WorkerEnd::Kind::killed:
    case WorkerEnd::Kind::stuck:
      break;
  }
  const bool started =
      end.kind != WorkerEnd::Kind::not_started && end.kind != WorkerEnd::Kind::step_gone;
  return {0,
          started ? "the staging process " + end.text + " before it was done"
                  : "the staging process could not be started: " + end.text,
          "Submit again; if it happens again, tell your administrators: the log of nodestaged on "
          "this node says more."};
}

}  // namespace

void Staging::read_staging(JobRecord& record) {
  // The last daemon could not note it.
  if (record.state == JobState::queued) deps_.table.set_state(record, JobState::staging);
  worker_ended(record.key(), {});
}

void Staging::worker_ended(const JobKey& key, const WorkerEnd& end) {
  queue_.leave_place(key);
  const bool lacked_space = deps_.allocator.close(key);
  if (JobRecord* record = deps_.table.find(key)) take_end(*record, end, lacked_space);
  queue_.go_on();
}

void Staging::take_end(JobRecord& record, const WorkerEnd& end, bool lacked_space) {
  const WorkerStatus status = deps_.files.status(record.key(), WorkerTask::stage);
  const bool is_done = status.phase == WorkerPhase::done;
  if (is_done) log_items(record, "staged: ", status, summary_lines(status));
  if (record.ended) return deps_.events.done(record.key(), Fact::stopped);
  const bool is_again = deps_.events.step_of(record.key()) == Step::end_staging;
  if (is_again && record.state == JobState::staging)
    return deps_.events.done(record.key(), Fact::unstaged);
  // Its journal could not be written meanwhile.
  if (record.state == JobState::failed) return deps_.table.save(record);
  if (!is_done) static_cast<void>(keep_complete(record, status));
  if (status.phase == WorkerPhase::failed && stage_again(record, status)) return;
  if (await_next_step(record, end)) return;
  const FailureCause why = lacked_space ? FailureCause::space : cause_of(end, status);
  if (status.phase == WorkerPhase::failed)
    return fail(record, why, {0, status.cause}, failed_source(status));
  if (is_done) return become_ready(record, status, Sharing::Report::last);
  if (record.state != JobState::ready) return fail(record, why, cause_of_end(end));
  log::warn(about(record), "the worker {} before its async items were staged", end.text);
  async_faults_[record.key()] = "the staging process " + end.text + " before it was staged";
  sharing_.failed(record);
  deps_.table.save(record);
}

// Once for each job: what is kept and not in use is not worth a failure at its user's quota.
bool Staging::stage_again(JobRecord& record, const WorkerStatus& status) {
  const bool is_quota =
      std::any_of(status.items.begin(), status.items.end(),
                  [](const ItemRecord& item) { return (item.flags & k_item_over_quota) != 0; });
  const JobKey key = record.key();
  if (!is_quota || over_quota_.contains(key) || record.state != JobState::staging ||
      !deps_.cache.make_room_of(record.begin.uid))
    return false;
  over_quota_.insert(key);
  log::info(about(record), "over its user's quota: what is kept for further jobs goes");
  sharing_.failed(record);
  deps_.files.forget_status(key, WorkerTask::stage);  // else the next daemon takes it for the end
  deps_.table.change(record, JobState::queued);
  deps_.events.done(key, Fact::over_quota);
  return true;
}

// Between the look for the job's step and the worker's start, the step has ended.
bool Staging::await_next_step(JobRecord& record, const WorkerEnd& end) {
  if (end.kind != WorkerEnd::Kind::step_gone || record.state != JobState::staging ||
      !first_steps_.lost(record.key()))
    return false;
  log::info(about(record), "in=memory: {}; the job waits for its next one", end.text);
  deps_.relays.stop(record.key());  // the next start has one of its own
  sharing_.failed(record);
  deps_.table.change(record, JobState::queued);
  deps_.events.done(record.key(), Fact::unstaged);
  return true;
}

// First, what was staged for others is moved to where its links lead.
void Staging::become_ready(JobRecord& record, const WorkerStatus& status, Sharing::Report report) {
  const Status kept = sharing_.staged(record, status, report);
  if (record.state == JobState::ready) return deps_.table.save(record);
  if (!kept && report == Sharing::Report::last)
    return deps_.events.done(record.key(), Fact::unstaged);
  if (!kept) return deps_.events.done(record.key(), Fact::spoilt);
  if (!sharing_.is_settled(record)) return deps_.events.done(record.key(), Fact::fresh);
  if (deps_.config.staging.hints) count_sources(record, status);
  deps_.events.done(record.key(), Fact::ready);
}

void Staging::count_sources(const JobRecord& record, const WorkerStatus& status) {
  for (std::size_t i = 0; i < status.items.size(); ++i) {
    std::string hint =
        repeated_.count({record.begin.uid, record.key().job}, status.items[i], deps_.loop.wall_s());
    if (!hint.empty()) hints_[record.key()][i] = std::move(hint);
  }
}

void Staging::add_hints(const JobKey& key, WorkerStatus& status) const {
  const auto hints = hints_.find(key);
  if (hints == hints_.end()) return;
  for (const auto& [index, hint] : hints->second) {
    if (index >= status.items.size()) continue;
    auto& note = status.items[index].note;
    std::string text = field_text(note);
    text += (text.empty() ? "" : "; ") + hint;
    if (text.size() < sizeof note) set_field(note, text);
  }
}

void Staging::await_tick(const JobKey& key) {
  deps_.loop.after(k_tick, [this, key] {
    if (deps_.events.step_of(key) == Step::await_tick) deps_.events.done(key, Fact::staged_more);
  });
}

// One timer for all jobs, while there are any that stage.
void Staging::poll_reports() {
  if (poll_) return;
  poll_ = deps_.loop.after(k_report_poll, [this] {
    poll_.reset();
    std::vector<JobKey> staging;
    for (const auto& [key, record] : deps_.table.all())
      if (record.state == JobState::staging) staging.push_back(key);
    for (const JobKey& key : staging) {
      const JobRecord* record = deps_.table.find(key);
      if (record != nullptr && has_staged_more(*record)) deps_.events.done(key, Fact::staged_more);
    }
    if (!staging.empty()) poll_reports();
  });
}

bool Staging::has_staged_more(const JobRecord& record) const {
  const JobKey key = record.key();
  const Step step = deps_.events.step_of(key);
  if (record.state != JobState::staging || !deps_.workers.is_working(key, WorkerTask::stage) ||
      step == Step::end_staging || step == Step::await_tick)
    return false;
  const WorkerStatus status = deps_.workers.status(key, WorkerTask::stage);
  return status.phase == WorkerPhase::ready ||
         (status.phase == WorkerPhase::working && sharing_.has_news(record, status));
}

// What others need of it is kept as soon as it is complete: it may fail for another item.
Status Staging::keep_complete(JobRecord& record, const WorkerStatus& status) {
  const std::vector<SharedItem> before = record.shared;
  Status kept = sharing_.staged(record, status, Sharing::Report::more);
  if (record.shared != before) deps_.table.save(record);
  return kept;
}

void Staging::take_report(JobRecord& record) {
  const JobKey key = record.key();
  if (record.state != JobState::staging) return;
  const WorkerStatus status = deps_.workers.status(key, WorkerTask::stage);
  if (!deps_.workers.is_working(key, WorkerTask::stage))
    return become_ready(record, status, Sharing::Report::last);
  if (status.phase == WorkerPhase::ready || status.phase == WorkerPhase::done)
    return become_ready(record, status, Sharing::Report::more);
  if (!keep_complete(record, status)) deps_.events.done(key, Fact::spoilt);
}

}  // namespace nodestage
