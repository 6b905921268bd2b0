// What a process of the job waits for: datasets, by name or all.
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/jobs/awaited.hpp"
#include "daemon/root/jobs/waiting.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_list_bytes = 16 * 1024;  // two of them go into one message

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

// The answer, if there is one yet. While the job still stages, the list can be incomplete and the
// name of a dataset still a guess: then only names that are known have one.
std::optional<Message> Waiting::word_on(const JobRecord& record,
                                        const std::vector<std::string>& names) const {
  const bool is_ready = record.state == JobState::ready;
  if (!is_ready && (record.state != JobState::staging || names.empty())) return {};
  const WorkerStatus status = status_of(record);
  const bool is_lost = is_ready && !at_.workers.is_working(record.key(), WorkerTask::stage) &&
                       !record.begin.request.empty();
  if (status.phase == WorkerPhase::none && !record.begin.request.empty()) {
    if (!is_lost) return {};
    return Failed{"what became of the staging is not known on this node", {}};
  }
  const Awaited awaited = choose_awaited(status, names, at_.files.path(record));
  if (!awaited.unknown.empty()) {
    if (!is_ready) return {};
    return unknown_names(awaited.unknown, status);
  }
  std::string fault;
  if (is_lost) {
    fault = at_.staging.async_fault(record.key());
    if (fault.empty()) fault = "the staging process ended before it was staged";
    fault += "\nSubmit again; if it happens again, tell your administrators.";
  }
  const std::string failed =
      failures(awaited.status, names.empty() ? Optional::is_left_out : Optional::counts, fault);
  if (!failed.empty()) return Failed{failed, {}};
  if (!all_ended(awaited.status)) return {};
  return Ready{{}, told_lines(awaited.status)};
}

Progress Waiting::progress_on(const JobRecord& record,
                              const std::vector<std::string>& names) const {
  const WorkerStatus status = status_of(record);
  const Awaited awaited = choose_awaited(status, names, at_.files.path(record));
  Progress progress = progress_of(awaited.status, Counted::all);
  if (status.phase == WorkerPhase::ready) progress.phase = ProgressPhase::staging;
  return progress;
}

}  // namespace nodestage
