#include "plugin/deadly_signals.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace nodestage {
namespace {

constexpr std::size_t k_most_bytes = 1000;
constexpr std::time_t k_early_s = 5;  // Slurm's clock, and its rounding

constexpr std::string_view k_at_limit = "the job's time limit has come before its data were staged";
constexpr std::string_view k_canceled = "the job was canceled before its data were staged";
constexpr std::string_view k_either =
    "the job has reached its time limit, or was canceled, before its data were staged";

class Text {
 public:
  void set(std::string_view text) { size_ = text.copy(bytes_.data(), bytes_.size()); }
  void write_to(int fd) const { static_cast<void>(!::write(fd, bytes_.data(), size_)); }
  [[nodiscard]] bool is_empty() const { return size_ == 0; }

 private:
  std::array<char, k_most_bytes> bytes_{};
  std::size_t size_ = 0;
};

// What the handler reads. A new line is written to the text that it does not read.
struct LastLine {
  int fd = -1;  // -1: nothing is said
  std::time_t limit = 0;
  Text beginning;
  std::array<Text, 2> progress;
  std::atomic<unsigned> current = 0;
};
constinit LastLine last_line;

void put(std::string_view text) {
  static_cast<void>(!::write(last_line.fd, text.data(), text.size()));
}

std::string_view reason() {
  if (last_line.limit == 0) return k_either;
  return ::time(nullptr) + k_early_s >= last_line.limit ? k_at_limit : k_canceled;
}

void say_and_die(int signal) {
  ::signal(signal, SIG_DFL);
  if (last_line.fd >= 0) {
    last_line.beginning.write_to(last_line.fd);
    put(reason());
    const Text& progress = last_line.progress[last_line.current];
    if (!progress.is_empty()) put(": ");
    progress.write_to(last_line.fd);
    put("\n");
  }
  ::raise(signal);
}

}  // namespace

DeadlySignals::DeadlySignals(int fd, const Words& words) {
  last_line.fd = words.speaks ? fd : -1;
  last_line.limit = words.limit;
  last_line.beginning.set(words.beginning);
  note_progress("");
  struct sigaction deadly {};
  deadly.sa_handler = SIG_DFL;
  ::sigaction(SIGINT, &deadly, &old_int_);
  deadly.sa_handler = say_and_die;
  deadly.sa_flags = SA_NODEFER;
  ::sigaction(SIGTERM, &deadly, &old_term_);
  sigset_t both;
  ::sigemptyset(&both);
  ::sigaddset(&both, SIGINT);
  ::sigaddset(&both, SIGTERM);
  ::sigprocmask(SIG_UNBLOCK, &both, &old_mask_);
}

DeadlySignals::~DeadlySignals() {
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  last_line.fd = -1;
}

void DeadlySignals::note_progress(std::string_view line) {
  const unsigned next = 1 - last_line.current;
  last_line.progress[next].set(line);
  last_line.current = next;
}

}  // namespace nodestage
