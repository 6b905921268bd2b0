#include "cli/pack/pack_watch.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/terminal.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_line_interval{10};
constexpr std::chrono::milliseconds k_poll{100};

}  // namespace

PackWatch::PackWatch(const std::string& name, Signals& signals)
    : name_(printable(name)),
      signals_(signals),
      voice_(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), "pack", k_line_interval) {}

bool PackWatch::was_stopped() {
  const auto signal = signals_.next(std::min(voice_.report_interval(), k_poll));
  const bool is_end = signal && is_deadly(*signal);
  if (is_end) signal_ = *signal;
  if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
  return is_end;
}

void PackWatch::show(Progress progress) {
  progress.phase = ProgressPhase::staging;
  progress.items = 1;
  progress.current = name_;
  progress.elapsed_ms = elapsed_ms();
  voice_.progress(progress);
}

std::uint64_t PackWatch::elapsed_ms() const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_).count());
}

}  // namespace nodestage
