// What a process of the job waits for: datasets, by name or all.
#include <algorithm>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/jobs/awaited.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

constexpr std::uint32_t k_smallest_interval_ms = 100;
constexpr std::size_t k_max_list_bytes = 16 * 1024;  // two of them go into one message

bool is_bounded(const Await& ask) {
  return ask.names.size() <= k_max_await_names &&
         std::all_of(ask.names.begin(), ask.names.end(),
                     [](const std::string& name) { return name.size() <= k_max_await_name_bytes; });
}

Refused unknown_names(const std::vector<std::string>& unknown, const WorkerStatus& status) {
  std::string text;
  for (const std::string& name : unknown)
    text += (text.empty() ? "'" : ", '") + printable(name) + "'";
  text = shortened(text, k_max_list_bytes);
  const std::string known = shortened(dataset_names(status), k_max_list_bytes);
  return {RefusalReason::unknown_name,
          "the job has no dataset " + text +
              (known.empty() ? "; it has none at all" : "; those it has: " + known)};
}

}  // namespace

Ticket Jobs::await(const Await& ask, Reply reply) {
  if (!is_bounded(ask)) {
    reply(Refused{RefusalReason::malformed, "too many or too long names"});
    return 0;
  }
  Job* job = find_live(ask.job);
  if (job == nullptr) {
    reply(Refused{RefusalReason::unknown_job, "nothing is known of this job on this node"});
    return 0;
  }
  const JobKey key = job->record.key();
  const Ticket ticket = next_ticket_++;
  job->waiters.emplace(ticket, Waiter{std::move(reply),
                                      std::max(ask.interval_ms, k_smallest_interval_ms),
                                      false,
                                      WaitScope::node,
                                      {},
                                      ask.names});
  tick(key, ticket);
  job = find(key);
  return job != nullptr && job->waiters.count(ticket) > 0 ? ticket : 0;
}

// The answer, when there is one yet. While the job still stages the list may be half made, and the
// name of a dataset may still be a guess: then only names that are known have one.
std::optional<Message> Jobs::word_on(const Job& job, const std::vector<std::string>& names) const {
  const bool is_ready = job.record.state == JobState::ready;
  if (!is_ready && (job.record.state != JobState::staging || names.empty())) return {};
  const WorkerStatus status = worker_status(job, WorkerTask::stage);
  const bool is_lost = is_ready && !job.worker && !job.record.begin.request.empty();
  if (status.phase == WorkerPhase::none && !job.record.begin.request.empty()) {
    if (!is_lost) return {};
    return Failed{"what became of the staging is not known on this node", {}};
  }
  const Awaited awaited = choose_awaited(status, names, files_.path(job.record));
  if (!awaited.unknown.empty()) {
    if (!is_ready) return {};
    return unknown_names(awaited.unknown, status);
  }
  std::string fault;
  if (is_lost) {
    fault = job.async_fault.empty() ? "the staging process ended before it was staged"
                                    : job.async_fault;
    fault += "\nSubmit again; if it happens again tell your administrators.";
  }
  const std::string failed =
      failures(awaited.status, names.empty() ? Optional::is_left_out : Optional::counts, fault);
  if (!failed.empty()) return Failed{failed, {}};
  if (!all_ended(awaited.status)) return {};
  return Ready{{}, summary_lines(awaited.status)};
}

Progress Jobs::progress_on(const Job& job, const std::vector<std::string>& names) const {
  const WorkerStatus status = worker_status(job, WorkerTask::stage);
  const Awaited awaited = choose_awaited(status, names, files_.path(job.record));
  Progress progress = progress_of(awaited.status, Counted::all);
  if (status.phase == WorkerPhase::ready) progress.phase = ProgressPhase::staging;
  return progress;
}

}  // namespace nodestage
