// Waits for a WorkerChild on behalf of its user.
#pragma once

#include <functional>
#include <optional>

#include "cli/base/signals.hpp"
#include "cli/base/worker_child.hpp"
#include "common/talk/task_voice.hpp"

namespace nodestage {

// Why a worker was killed before its end.
struct WorkerStop {
  int signal = 0;  // the deadly signal that this process received; 0: it was called off
};

// Waits until the worker has exited, and shows its progress meanwhile. Kills it at a deadly signal,
// and once is_called_off, which is asked a few times per second, returns true.
std::optional<WorkerStop> watch_worker(WorkerChild& worker, Signals& signals, TaskVoice& voice,
                                       const std::function<bool()>& is_called_off = {});

// Returns how a worker that has exited by itself has ended: its status, in which outputs may have
// failed; or a fault in words for the user.
Result<WorkerStatus> end_of_worker(const WorkerChild& worker, WorkerTask task);

// Explains a fault of WorkerChild::start().
Error cannot_start_worker(const Error& fault);

}  // namespace nodestage
