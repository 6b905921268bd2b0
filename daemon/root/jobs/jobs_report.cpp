// What is told and kept of when what happened to a job (common/wire/node_report.hpp).
#include "common/os/wall_clock.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

const char* to_text(JobOutcome outcome) {
  switch (outcome) {
    case JobOutcome::success:
      return "success";
    case JobOutcome::failure:
      return "failure";
    case JobOutcome::unknown:
      break;
  }
  return "unknown";
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

}  // namespace

NodeReport Jobs::report_of(const Job& job) const {
  const JobRecord& record = job.record;
  NodeReport report;
  report.job = record.begin.job;
  report.restart = record.begin.restart;
  report.uid = record.begin.uid;
  report.node = record.begin.node;
  report.node_index = record.begin.node_index;
  report.node_count = record.begin.node_count;
  report.state = state_in(record);
  if (record.ended) report.outcome = to_text(outcome_of(record));
  report.cause = cause_in(record, job.parting);
  report.times = record.times;
  if (report.times.begun == 0)
    report.times.begun = record.begun_at * 1000;  // an older daemon's job
  report.at = record.times.gone != 0 ? record.times.gone : wall_ms();
  const std::uint64_t from = report.times.begun;
  report.items = items_in(worker_status(job, WorkerTask::stage), from, report.at);
  report.outputs = items_in(worker_status(job, WorkerTask::stage_out), from, report.at);
  return report;
}

// Of a job that wanted nothing there is nothing to tell.
void Jobs::keep_report(const Job& job) {
  const JobRecord& record = job.record;
  if (record.begin.request.empty()) return;
  at_.records.keep(record.key(), record.begin.uid, encode_report(report_of(job)));
}

std::vector<std::string> Jobs::reports(std::uint32_t wanted, std::uint32_t uid) const {
  std::vector<std::string> reports = at_.records.find(wanted, uid);
  for (const auto& [key, job] : jobs_) {
    const Begin& begin = job.record.begin;
    if (key.job != wanted || (uid != 0 && uid != begin.uid)) continue;
    if (begin.request.empty() || job.record.state == JobState::gone) continue;
    reports.push_back(encode_report(report_of(job)));
  }
  return reports;
}

}  // namespace nodestage
