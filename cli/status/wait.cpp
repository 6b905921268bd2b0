#include "cli/status/wait.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "cli/base/conversation.hpp"
#include "cli/base/this_node.hpp"
#include "common/os/terminal.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_line_interval{10};
constexpr std::chrono::seconds k_patience{60};  // for a daemon that is away
constexpr std::chrono::seconds k_mention_absence{2};
constexpr std::chrono::milliseconds k_reconnect_pause{200};
constexpr const char* k_what_a_name_is =
    "NAME is the <NAME> of NODESTAGE_DATASET_<NAME>, or a path below $SLURM_TMPDIR.";

// The job id from the environment; 0 outside of a job.
std::uint32_t job_of_environment() {
  for (const char* variable : {"NODESTAGE_JOBID", "SLURM_JOB_ID"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') continue;
    return parse_number<std::uint32_t>(text).value_or(0);
  }
  return 0;
}

class Waiting {
 public:
  Waiting(const WaitArguments& arguments, std::uint32_t job)
      : arguments_(arguments),
        voice_(arguments.quiet ? Speech::silent : Speech::aloud, STDERR_FILENO,
               obeys_escapes(STDERR_FILENO), node_name(), k_line_interval),
        away_since_(Clock::now()) {
    const auto interval =
        arguments.quiet ? std::chrono::milliseconds(k_mention_absence) : voice_.report_interval();
    ask_ = {job, static_cast<std::uint32_t>(interval.count()), arguments.names};
  }

  int run() {
    for (;;) {
      const Status broken = converse_once();
      if (code_) return *code_;
      if (const auto code = note_absence(broken.error())) return *code;
      ::poll(nullptr, 0, static_cast<int>(k_reconnect_pause.count()));
    }
  }

 private:
  // Returns when the answer is in code_, or with a fault.
  Status converse_once() {
    TRY_ASSIGN(DaemonConnection daemon, DaemonConnection::open(arguments_.socket));
    TRY(daemon.send(ask_, Clock::now() + k_patience));
    while (!code_) {
      TRY_ASSIGN(const Message message, daemon.receive(Clock::now() + k_patience));
      away_since_.reset();
      was_reached_ = true;
      code_ = take(message);
    }
    return {};
  }

  std::optional<int> take(const Message& message) {
    if (const auto* progress = std::get_if<Progress>(&message)) {
      voice_.progress(*progress);
      return {};
    }
    voice_.clear();
    if (const auto* ready = std::get_if<Ready>(&message)) {
      for (const std::string& line : ready->lines) voice_.say(line);
      return 0;
    }
    if (const auto* failed = std::get_if<Failed>(&message)) {
      TaskVoice(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), node_name(),
                k_line_interval)
          .say(failed->cause);
      return k_fault;
    }
    if (const auto* refused = std::get_if<Refused>(&message)) return refusal(*refused);
    return daemon_fault("nodestaged gave an unexpected answer");
  }

  [[nodiscard]] int refusal(const Refused& refused) const {
    const std::string job = "job " + std::to_string(ask_.job);
    switch (refused.reason) {
      case RefusalReason::unknown_name:
        return wrong_usage(refused.what, k_what_a_name_is);
      case RefusalReason::unknown_job:
      case RefusalReason::not_permitted:
        return wrong_usage("nodestaged knows no such job of yours on this node: " + job,
                           "`nodestage wait` works inside a job with --stage-dataset or "
                           "--stage-out, on its nodes, while it runs.");
      case RefusalReason::malformed:
        return wrong_usage("nodestaged does not accept this: " + refused.what,
                           "If the names are right, the command and the daemon are of different "
                           "releases: tell your administrators.");
      default:
        return daemon_fault("nodestaged refuses: " + refused.what);
    }
  }

  // An exit code if there is nothing more to wait for.
  std::optional<int> note_absence(const Error& error) {
    if (!was_reached_ && error.code == ENOENT && std::getenv("NODESTAGE_JOBID") == nullptr)
      return wrong_usage("nothing is staged on this host: no nodestaged runs here",
                         "`nodestage wait` works inside a job, on its nodes: srun nodestage wait");
    if (!is_daemon_away(error)) {
      voice_.clear();
      return daemon_fault(error.what);
    }
    const auto now = Clock::now();
    if (!away_since_) away_since_ = now;
    if (now - *away_since_ >= k_patience) {
      voice_.clear();
      return daemon_fault("nodestaged has not answered for 60 s (" + error.what + ")");
    }
    if (!absence_mentioned_ && now - *away_since_ >= k_mention_absence) {
      voice_.say("nodestaged does not answer; it may be restarting; waiting for it for up to 60 s");
      absence_mentioned_ = true;
    }
    return {};
  }

  const WaitArguments& arguments_;
  TaskVoice voice_;
  Await ask_;
  std::optional<int> code_;
  std::optional<Deadline> away_since_;
  bool was_reached_ = false;
  bool absence_mentioned_ = false;
};

bool is_staged_here(const std::string& name) {
  static constexpr std::string_view k_prefix = "NODESTAGE_DATASET_";
  const std::string variable = variable_name(name);
  const bool is_whole = variable.starts_with(k_prefix);
  if (std::getenv((is_whole ? variable : std::string(k_prefix) + variable).c_str()) != nullptr)
    return true;
  const char* directory = std::getenv("SLURM_TMPDIR");
  const bool is_path = name.starts_with('/');
  return directory != nullptr &&
         ::access((is_path ? name : std::string(directory) + "/" + name).c_str(), F_OK) == 0;
}

// `nodestage run` has already waited for all of them.
int wait_in_run(const WaitArguments& arguments) {
  for (const std::string& name : arguments.names) {
    if (is_staged_here(name)) continue;
    return fault("'" + name + "' was not staged: it failed, or no dataset has that name",
                 "The output of `nodestage run` before the command started says which; " +
                     std::string(k_what_a_name_is));
  }
  return 0;
}

}  // namespace

int wait_for_datasets(const WaitArguments& arguments) {
  if (std::getenv("NODESTAGE_RUN") != nullptr) return wait_in_run(arguments);
  const std::uint32_t job = job_of_environment();
  if (job == 0)
    return wrong_usage("this is not inside a job: neither NODESTAGE_JOBID nor SLURM_JOB_ID is set",
                       "Call it in the job's script, or in a step of it.");
  if (arguments.names.size() > k_max_await_names)
    return wrong_usage("more than " + std::to_string(k_max_await_names) + " names",
                       "Without names it waits for all.");
  for (const std::string& name : arguments.names) {
    if (name.empty() || name.size() > k_max_await_name_bytes)
      return wrong_usage("'" + name + "' is not the name of a dataset", k_what_a_name_is);
  }
  return Waiting(arguments, job).run();
}

}  // namespace nodestage
