// Waits, as a task, for its node's staging: the conversation with the daemon, without SPANK.
#pragma once

#include <signal.h>

#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/settings/plugin_settings.hpp"
#include "common/talk/task_voice.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

struct StageWaitOrder {
  Wait wait;                            // wait_for_stage sets `speaks`, `scope` and `interval_ms`
  StageWait patience = StageWait::all;  // none: ask once and go on in any case
  std::string node;
};

enum class StageVerdict { go_on, fail };

struct StageWaitResult {
  StageVerdict verdict = StageVerdict::fail;
  std::vector<std::string> environment;  // NAME=VALUE from the daemon, not checked
};

// Returns when staging is ready or has failed, or at a limit in the settings; writes the cause of a
// failure to `voice`. Reconnects if the daemon restarts. Blocks; only a fatal signal interrupts it.
StageWaitResult wait_for_stage(const StageWaitOrder& order, const PluginSettings& settings,
                               TaskVoice& voice);

// Finds out what a task's program was really started with: a TaskProlog script, and a plugin that
// is listed after this one, can set other variables once task_init has returned.

// Returns the value of SLURM_TMPDIR in the text of /proc/PID/environ; "" where it is not set.
std::string directory_in(std::string_view environment);

// Returns what `read` reads of /proc/PID/environ. While a program starts, its memory is there
// before its environment is, which reads as empty until then: it is read again, `looks` times in
// all with a millisecond between them. "" if it cannot be read, and of a program without a
// variable.
std::string environment_at_start(const std::function<Result<std::string>()>& read,
                                 int looks = 1000);

// Starts a process that waits until the calling one, a task, has executed its program, and then
// compares the program's SLURM_TMPDIR with `directory`. If it is another one, a line is written to
// stderr: `beginning` and what is wrong. The process belongs to init, has no other descriptor, and
// ends with the execve, or a second later. Does nothing if it cannot be started. For a task's
// process before its execve, as its user.
void compare_when_started(const std::string& directory, const std::string& beginning);

// DeadlySignals: how a task that waits for its data dies by a signal.
// While it lives, SIGINT and SIGTERM kill the process at once, whatever they did before. SIGTERM,
// which comes at a job's time limit and from scancel, first writes a last line to `fd` (borrowed):
// that the job has ended, and how far its staging was. At most one object at a time.
class DeadlySignals {
 public:
  struct Words {
    bool speaks = false;    // otherwise nothing is written
    std::string beginning;  // of the line, such as "nodestage: n1: "
    std::time_t limit = 0;  // when the job's time limit ends; 0: not known
  };
  DeadlySignals(int fd, const Words& words);
  DeadlySignals(const DeadlySignals&) = delete;
  DeadlySignals& operator=(const DeadlySignals&) = delete;
  ~DeadlySignals();

  // How far the staging is, for the last line.
  static void note_progress(std::string_view line);

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
  sigset_t old_mask_{};
};

}  // namespace nodestage
