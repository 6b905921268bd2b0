// DeadlySignals: how a task that waits for its data dies by a signal.
#pragma once

#include <signal.h>

#include <ctime>
#include <string>
#include <string_view>

namespace nodestage {

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
