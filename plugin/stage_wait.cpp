#include "plugin/stage_wait.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_patience_of_none{1};
constexpr std::chrono::seconds k_mention_absence{2};
constexpr std::chrono::seconds k_least_silence{1};
constexpr std::chrono::milliseconds k_reconnect_pause{200};

std::string duration_text(std::chrono::milliseconds duration) {
  return human_duration(static_cast<std::uint64_t>(duration.count()));
}

class Conversation {
 public:
  Conversation(const StageWaitOrder& order, const PluginSettings& settings, TaskVoice& voice)
      : order_(order), settings_(settings), voice_(voice), start_(Clock::now()) {}

  StageWaitResult run();

 private:
  Deadline limit() const { return start_ + settings_.stage_wait; }
  // How long the daemon may say nothing: it reports at each interval.
  std::chrono::milliseconds longest_silence() const {
    return std::max(settings_.daemon_wait, k_least_silence) + 2 * voice_.report_interval();
  }
  StageWaitResult fail(const std::string& text);
  StageWaitResult fail_at_limit();
  StageWaitResult fail_away(const Error& cause, std::chrono::milliseconds waited);
  StageWaitResult fail_refused(const Refused& refused);

  Result<DaemonConnection> begin_wait();
  // Returns the daemon's verdict, or that of note_absence() if the connection breaks.
  std::optional<StageWaitResult> listen(DaemonConnection& connection);
  std::optional<StageWaitResult> take(const Message& message);
  std::optional<StageWaitResult> note_absence(const Error& error);

  const StageWaitOrder& order_;
  const PluginSettings& settings_;
  TaskVoice& voice_;
  Deadline start_;
  std::optional<Deadline> away_since_;
  bool absence_mentioned_ = false;
};

// Without a text: the step's first node says it.
StageWaitResult Conversation::fail(const std::string& text) {
  if (!text.empty()) voice_.say(text);
  return {StageVerdict::fail, {}};
}

StageWaitResult Conversation::fail_at_limit() {
  return fail("staging has not finished after " + duration_text(settings_.stage_wait) +
              ", the longest that a task waits here. Stage less data, or ask your administrators "
              "why it takes so long.");
}

StageWaitResult Conversation::fail_away(const Error& cause, std::chrono::milliseconds waited) {
  return fail("nodestaged, which stages the data on this node, has not answered for " +
              duration_text(waited) + " (" + cause.what +
              "). Submit the job again, with --exclude=" + order_.node +
              " to avoid this node, and tell your administrators.");
}

StageWaitResult Conversation::fail_refused(const Refused& refused) {
  switch (refused.reason) {
    case RefusalReason::unknown_job:
      return fail("nodestaged no longer knows this job (" + refused.what +
                  "). Its directory on this node may have been removed: submit the job again.");
    case RefusalReason::malformed:
      return fail(
          "nodestaged on this node does not understand this Slurm plugin (" + refused.what +
          "). Tell your administrators: the plugin and the daemon must be of the same release.");
    case RefusalReason::not_permitted:
    case RefusalReason::busy:
    case RefusalReason::fault:
    case RefusalReason::unknown_name:
      break;
  }
  return fail("nodestaged refuses: " + refused.what + ". Tell your administrators.");
}

std::optional<StageWaitResult> Conversation::take(const Message& message) {
  away_since_.reset();
  if (const auto* progress = std::get_if<Progress>(&message)) {
    voice_.progress(*progress);
    return std::nullopt;
  }
  if (const auto* ready = std::get_if<Ready>(&message)) {
    for (const auto& line : ready->lines) voice_.say(line);
    return StageWaitResult{StageVerdict::go_on, ready->environment};
  }
  if (const auto* failed = std::get_if<Failed>(&message)) {
    for (const auto& line : failed->lines) voice_.say(line);
    return fail(failed->cause);
  }
  if (const auto* refused = std::get_if<Refused>(&message)) return fail_refused(*refused);
  return fail("nodestaged gave an unexpected answer. Tell your administrators.");
}

std::optional<StageWaitResult> Conversation::note_absence(const Error& error) {
  const bool is_silent = error.code == ETIMEDOUT;
  if (!is_silent && !is_daemon_away(error))
    return fail("nodestaged cannot be asked (" + error.what + "). Tell your administrators.");
  const Deadline now = Clock::now();
  if (now >= limit()) return fail_at_limit();
  if (is_silent) return fail_away(error, longest_silence());
  if (!away_since_) away_since_ = now;
  if (now - *away_since_ >= settings_.daemon_wait) return fail_away(error, settings_.daemon_wait);
  if (!absence_mentioned_ && now - *away_since_ >= k_mention_absence) {
    voice_.say("nodestaged does not answer; it may be restarting; waiting for it for up to " +
               duration_text(settings_.daemon_wait));
    absence_mentioned_ = true;
  }
  ::poll(nullptr, 0, static_cast<int>(k_reconnect_pause.count()));
  return std::nullopt;
}

Result<DaemonConnection> Conversation::begin_wait() {
  TRY_ASSIGN(DaemonConnection connection, DaemonConnection::open(settings_.socket));
  Wait wait = order_.wait;
  wait.scope = order_.patience == StageWait::all ? WaitScope::all : WaitScope::node;
  wait.speaks = voice_.shows_progress() ? k_says_all : voice_.speaks() ? k_says_own : 0;
  wait.interval_ms = static_cast<std::uint32_t>(voice_.report_interval().count());
  TRY(connection.send(wait, limit()));
  return connection;
}

std::optional<StageWaitResult> Conversation::listen(DaemonConnection& connection) {
  for (;;) {
    const auto message = connection.receive(std::min(limit(), Clock::now() + longest_silence()));
    if (!message) return note_absence(message.error());
    if (auto result = take(message.value())) return result;
  }
}

StageWaitResult Conversation::run() {
  for (;;) {
    auto connection = begin_wait();
    if (auto result = connection ? listen(*connection) : note_absence(connection.error()))
      return std::move(*result);
  }
}

// Uses what is ready, and waits for nothing, for --stage-wait=none.
StageWaitResult ask_once(const StageWaitOrder& order, const PluginSettings& settings,
                         TaskVoice& voice) {
  const Deadline limit = Clock::now() + k_patience_of_none;
  Wait wait = order.wait;
  wait.goes_on = k_runs;
  wait.scope = WaitScope::node;
  const auto reply = ask_daemon(settings.socket, wait, limit, limit);
  StageWaitResult result{StageVerdict::go_on, {}};
  if (!reply) {
    voice.say("the state of staging is not known (" + reply.error().what + ")");
  } else if (const auto* ready = std::get_if<Ready>(&reply.value())) {
    result.environment = ready->environment;
  } else if (const auto* progress = std::get_if<Progress>(&reply.value())) {
    if (!progress->directory.empty()) {
      result.environment = {"SLURM_TMPDIR=" + progress->directory};
    }
  } else if (const auto* failed = std::get_if<Failed>(&reply.value())) {
    voice.say("staging has failed; the job goes on because of --stage-wait=none\n" + failed->cause);
  } else if (const auto* refused = std::get_if<Refused>(&reply.value())) {
    voice.say("the state of staging is not known (" + refused->what + ")");
  }
  return result;
}

}  // namespace

StageWaitResult wait_for_stage(const StageWaitOrder& order, const PluginSettings& settings,
                               TaskVoice& voice) {
  if (order.patience == StageWait::none) return ask_once(order, settings, voice);
  return Conversation(order, settings, voice).run();
}

namespace {

constexpr std::size_t k_max_environment = 4 << 20;
constexpr int k_execve_fd = 0;  // closed by the task's execve at the other end
constexpr int k_task_fd = 1;    // the task's directory in /proc

bool are_one(const std::string& one, const std::string& other) {
  struct stat first {};
  struct stat second {};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void compare(const std::string& directory, const std::string& beginning) {
  char byte = 0;
  while (::read(k_execve_fd, &byte, 1) < 0 && errno == EINTR) {
  }
  const std::string other = directory_in(
      environment_at_start([] { return read_file(k_task_fd, "environ", k_max_environment); }));
  if (other.empty() || other == directory || are_one(other, directory)) return;
  const std::string line =
      beginning + "warning: this program has SLURM_TMPDIR=" + printable(other) +
      ", but data were staged in " + printable(directory) +
      ", and results are looked for there: a TaskProlog script or another plugin sets the "
      "variable. Use $NODESTAGE_DATASET for data, and tell your administrators.\n";
  static_cast<void>(write_all(STDERR_FILENO, line));
}

}  // namespace

std::string directory_in(std::string_view environment) {
  constexpr std::string_view k_name = "SLURM_TMPDIR=";
  while (!environment.empty()) {
    const std::string_view variable = take_field(environment, '\0');
    if (variable.starts_with(k_name)) return std::string(variable.substr(k_name.size()));
  }
  return {};
}

std::string environment_at_start(const std::function<Result<std::string>()>& read, int looks) {
  for (; looks > 0; --looks) {
    auto environment = read();
    if (!environment) return {};  // it has ended
    if (!environment->empty()) return std::move(*environment);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

void compare_when_started(const std::string& directory, const std::string& beginning) {
  auto pipe = make_pipe();
  auto task = open_at(AT_FDCWD, "/proc/" + std::to_string(::getpid()), O_PATH | O_DIRECTORY);
  if (!pipe || !task) return;
  const pid_t child = ::fork();
  if (child < 0) return;
  if (child == 0) {
    // So that neither the task nor slurmstepd gets a child that it does not know.
    if (::fork() != 0) ::_exit(0);
    ::prctl(PR_SET_NAME, "nodestage-check");
    if (place_descriptors({pipe->read.get(), task->get(), STDERR_FILENO}))
      compare(directory, beginning);
    ::_exit(0);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  // Stays open until the execve.
  static_cast<void>(pipe->write.release());
}

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
