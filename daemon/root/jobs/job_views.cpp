#include "daemon/root/jobs/job_views.hpp"

#include <sys/statvfs.h>

#include <algorithm>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/held/hold.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_view_age{200};

bool may_see(std::uint32_t uid, const JobRecord& record) {
  return uid == 0 || uid == record.begin.uid;
}

std::string cause_in(const JobRecord& record, const std::string& parting) {
  if (!record.failure.empty()) return record.failure;
  if (record.verdict == Verdict::failed) return record.verdict_text;
  if (!parting.empty()) return parting;
  return record.state == JobState::held ? record.cause : "";
}

std::string state_in(const JobRecord& record) {
  if (record.state != JobState::gone) return nodestage::to_text(record.state);
  return !record.failure.empty() || record.verdict == Verdict::failed ? "failed" : "done";
}

std::vector<ReportItem> items_in(const WorkerStatus& status, std::uint64_t from, std::uint64_t to) {
  std::vector<ReportItem> items;
  for (const ItemRecord& item : status.items) items.push_back(report_item(item, from, to));
  return items;
}

// No worker works on them any more.
void end_items(std::vector<ReportItem>& items) {
  for (ReportItem& item : items) {
    const bool is_begun = item.state == word_of(k_item_state_words, ItemState::working);
    if (!is_begun && item.state != word_of(k_item_state_words, ItemState::waiting)) continue;
    item.state = word_of(k_item_state_words, is_begun ? ItemState::failed : ItemState::skipped);
    if (item.note.empty()) item.note = "the job ended before it was complete";
  }
}

// A later try skips what an earlier one has delivered.
void note_delivered(std::uint64_t delivered, std::vector<ReportItem>& outputs) {
  for (std::size_t i = 0; i < std::min(outputs.size(), k_max_request_items); ++i) {
    const bool is_skipped = outputs[i].state == word_of(k_item_state_words, ItemState::skipped);
    if (is_skipped && (delivered >> i & 1) != 0)
      outputs[i].state = word_of(k_item_state_words, ItemState::done);
  }
}

bool is_staged_no_more(const JobRecord& record) {
  return record.ended ? record.state != JobState::stopping : record.state == JobState::failed;
}

// What was delivered while the job runs.
void add_outputs(const WorkerStatus& pushed, std::vector<StatusItem>& items) {
  std::vector<StatusItem> outputs = status_items(pushed, WorkerTask::push);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    StatusItem& output = outputs[i];
    const std::uint64_t ended_s = pushed.items[i].ended_ms / 1000;
    if (output.state == ItemState::done && ended_s != 0)
      output.note =
          "delivered " + human_date(ended_s) + (output.note.empty() ? "" : "; ") + output.note;
    items.push_back(std::move(output));
  }
}

}  // namespace

NodeReport JobViews::report_of(const JobRecord& record) const {
  const JobKey key = record.key();
  NodeReport report;
  report.job = record.begin.job;
  report.restart = record.begin.restart;
  report.uid = record.begin.uid;
  report.node = record.begin.node;
  report.node_index = record.begin.node_index;
  report.node_count = record.begin.node_count;
  report.state = state_in(record);
  if (record.ended) report.outcome = word_of(k_job_outcome_words, outcome_of(record));
  report.cause = cause_in(record, deps_.held.parting(key));
  report.times = record.times;
  if (report.times.begun == 0)
    report.times.begun = record.begun_at * 1000;  // an older daemon's job
  report.at = record.times.gone != 0 ? record.times.gone : deps_.loop.wall_ms();
  const std::uint64_t from = report.times.begun;
  report.items = items_in(deps_.files.status(key, WorkerTask::stage), from, report.at);
  const WorkerStatus out = deps_.files.status(key, WorkerTask::stage_out);
  report.outputs =
      items_in(out.phase == WorkerPhase::none ? deps_.pushes.status(record) : out, from, report.at);
  note_delivered(record.hold.delivered, report.outputs);
  if (is_staged_no_more(record)) end_items(report.items);
  if (record.state == JobState::held || record.state == JobState::gone) end_items(report.outputs);
  report.pushes = record.pushes;
  report.pushes_in_all = record.pushes_in_all;
  return report;
}

// A job without a request has nothing to report.
void JobViews::keep_report(const JobRecord& record) const {
  if (record.begin.request.empty()) return;
  deps_.records.keep(record.key(), record.begin.uid, encode_report(report_of(record)));
}

std::vector<std::string> JobViews::reports(std::uint32_t wanted, std::uint32_t uid) const {
  std::vector<std::string> reports = deps_.records.find(wanted, uid);
  for (const auto& [key, record] : deps_.table.all()) {
    if (key.job != wanted || !may_see(uid, record)) continue;
    if (record.begin.request.empty() || record.state == JobState::gone) continue;
    reports.push_back(encode_report(report_of(record)));
  }
  return reports;
}

// For a user who asks in a loop, each status file is read once in a while, not each time.
const std::vector<StatusItem>& JobViews::items_of(const JobKey& key, WorkerTask task) {
  Seen& seen = seen_[key];
  const auto now = deps_.loop.now();
  if (seen.task != task || now - seen.at >= k_view_age)
    seen = {now, task, status_items(deps_.files.status(key, task), task)};
  return seen.items;
}

// What the job waits for on this node, and on others.
std::string JobViews::wait_of(const JobRecord& record) const {
  const JobKey key = record.key();
  std::string text;
  if (record.state == JobState::queued)
    text = deps_.staging.wait_line(key);
  else if (const std::string lack = deps_.staging.lack_of(key); !lack.empty())
    text = queue_line(lack, 0);
  const std::string others = deps_.talk.list(key);
  return text + (text.empty() || others.empty() ? "" : "; ") + others;
}

StatusRow JobViews::row_of(const JobRecord& record) const {
  const JobKey key = record.key();
  const bool others_failed = record.cause.empty() && record.verdict == Verdict::failed;
  StatusRow row;
  row.job = key.job;
  row.restart = key.restart;
  row.uid = record.begin.uid;
  row.user = printable(record.begin.user);
  row.node = printable(record.begin.node);
  row.state = nodestage::to_text(record.state);
  row.begun_at = record.begun_at;
  row.cause = others_failed ? record.verdict_text : record.cause;
  row.others = wait_of(record);
  if (record.in_hold) row.kept_in = deps_.areas.held_path(key);
  return row;
}

std::vector<JobStatus> JobViews::status(std::uint32_t wanted, std::uint32_t uid) {
  std::vector<JobStatus> found;
  for (const auto& [key, record] : deps_.table.all()) {
    if ((wanted != 0 && wanted != key.job) || !may_see(uid, record)) continue;
    const bool is_out = record.state == JobState::staging_out || record.state == JobState::held;
    const WorkerTask task = is_out ? WorkerTask::stage_out : WorkerTask::stage;
    JobStatus& status = found.emplace_back();
    status.row = row_of(record);
    status.items = items_of(key, task);
    if (!is_out) add_outputs(deps_.pushes.status(record), status.items);
    // No worker works on them any more.
    for (StatusItem& item : status.items) {
      if (record.state == JobState::failed && item.state == ItemState::working)
        item.state = ItemState::failed;
    }
  }
  return found;
}

std::vector<HeldRow> JobViews::held(std::uint32_t uid) const {
  std::vector<HeldRow> rows;
  for (const auto& [key, record] : deps_.table.all()) {
    const HoldRecord& hold = record.hold;
    if (hold.since == 0 || !may_see(uid, record)) continue;
    const bool is_tried = record.state == JobState::staging_out;
    rows.push_back({key.job, key.restart, record.begin.uid, record.begin.node, hold.since,
                    hold_times(hold, deps_.config.hold).expire,
                    is_tried ? deps_.loop.wall_s() : hold.retry_at, hold.is_measured, hold.bytes,
                    hold.inodes, deps_.files.kept_in(record), hold.reasons});
  }
  return rows;
}

Metrics JobViews::metrics(const Counters& counters) const {
  Metrics metrics;
  metrics.counters = counters;
  for (const auto& [key, record] : deps_.table.all()) {
    ++metrics.jobs[static_cast<std::size_t>(record.state)];
    metrics.promised_bytes += deps_.allocator.promised_to(key).bytes;
    if (record.hold.since == 0) continue;
    const auto waits_for = static_cast<std::size_t>(
        record.hold.waits_for_user ? WaitsFor::user : WaitsFor::administrator);
    ++metrics.held_results[waits_for];
    if (can_be_switched_off(record)) ++metrics.held_at_risk;
    metrics.held_bytes[waits_for] += record.hold.bytes;
    metrics.held_inodes[waits_for] += record.hold.inodes;
  }
  deps_.cache.add_to(metrics);
  const std::size_t not_moved = metrics.jobs[static_cast<std::size_t>(JobState::gone)];
  metrics.trash_trees = deps_.areas.trees_in_trash() + not_moved;
  metrics.stuck_trees = not_moved;
  struct statvfs disk {};
  if (::statvfs(tmpdir_root(deps_.config).c_str(), &disk) == 0) {
    metrics.free_bytes = disk.f_bavail * disk.f_frsize;
    metrics.free_inodes = disk.f_favail;
    metrics.size_bytes = disk.f_blocks * disk.f_frsize;
  }
  return metrics;
}

}  // namespace nodestage
