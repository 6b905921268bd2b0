#include "cli/base/worker_watch.hpp"

#include <signal.h>

#include <algorithm>

#include "common/talk/summary.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_call_off_interval{200};

void show(const WorkerChild& worker, TaskVoice& voice, Deadline begun) {
  const auto status = worker.status();
  if (!status) return;
  Progress progress = progress_of(*status, Counted::all);
  progress.elapsed_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun).count());
  voice.progress(progress);
}

}  // namespace

std::optional<WorkerStop> watch_worker(WorkerChild& worker, Signals& signals, TaskVoice& voice,
                                       const std::function<bool()>& is_called_off) {
  const auto begun = Clock::now();
  auto interval = voice.report_interval();
  if (is_called_off) interval = std::min(interval, k_call_off_interval);
  const auto stop = [&](int signal) {
    worker.kill();
    voice.clear();
    return WorkerStop{signal};
  };
  while (!worker.has_ended()) {
    const auto signal = signals.next(interval);
    if (signal && is_deadly(*signal)) return stop(*signal);
    if (is_called_off && is_called_off()) return stop(0);
    if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
    if (!signal) show(worker, voice, begun);
  }
  voice.clear();
  return {};
}

Result<WorkerStatus> end_of_worker(const WorkerChild& worker, WorkerTask task) {
  TRY_ASSIGN(WorkerStatus status, worker.status());
  const bool is_of_outputs = task == WorkerTask::stage_out || task == WorkerTask::push;
  const bool has_items = is_of_outputs && !status.items.empty();
  if (status.phase == WorkerPhase::done || (status.phase == WorkerPhase::failed && has_items))
    return status;
  if (!status.cause.empty()) return Error{0, status.cause};
  return Error{0, "nodestage-worker failed: " + worker.last_words(),
               "Try again; if it happens again, tell your administrators."};
}

Error cannot_start_worker(const Error& fault) {
  return {0, "nodestage-worker cannot be started: " + fault.text(),
          "Is nodestage installed completely? The worker's path, relative to this command, is "
          "../libexec/nodestage."};
}

}  // namespace nodestage
