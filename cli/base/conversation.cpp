#include "cli/base/conversation.hpp"

#include <poll.h>

#include <cstdio>
#include <cstdlib>

#include "common/request/request_warnings.hpp"
#include "common/request/submission.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {

int fault(const std::string& what, const std::string& to_do) {
  std::fprintf(stderr, "nodestage: %s\n%s\n", printable(what, Newlines::keep).c_str(),
               to_do.c_str());
  return k_fault;
}

int wrong_usage(const std::string& what, const std::string& to_do) {
  fault(what, to_do);
  return k_wrong_usage;
}

int daemon_fault(const std::string& what) {
  return fault(what,
               "On a compute node, tell your administrators (systemctl status nodestaged); a login "
               "node has no daemon.");
}

int no_answer(const Error& error, const std::string& to_type) {
  if (!is_daemon_away(error)) return daemon_fault(error.text());
  return fault(error.text(), "A login node has no daemon. " + to_type +
                                 "\nOn a compute node, tell your administrators (systemctl status "
                                 "nodestaged).");
}

Result<int> exchange(const std::string& socket, const Message& request,
                     const OnMessage& on_message) {
  auto daemon = DaemonConnection::open(socket);
  if (!daemon)
    return Error{daemon.error().code,
                 "nodestaged does not answer on this host: " + daemon.error().text()};
  TRY(daemon->send(request, Clock::now() + k_daemon_wait));
  for (;;) {
    TRY_ASSIGN(const Message message, daemon->receive(Clock::now() + k_daemon_wait));
    if (const auto code = on_message(message)) return *code;
  }
}

namespace {

constexpr std::chrono::seconds k_patience{60};  // for a daemon that is away
constexpr std::chrono::seconds k_mention_absence{2};
constexpr std::chrono::milliseconds k_reconnect_pause{200};

}  // namespace

std::uint32_t job_of_environment() {
  for (const char* variable : {"NODESTAGE_JOBID", "SLURM_JOB_ID"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') continue;
    return parse_number<std::uint32_t>(text).value_or(0);
  }
  return 0;
}

int outside_of_a_job() {
  return wrong_usage("this is not inside a job: neither NODESTAGE_JOBID nor SLURM_JOB_ID is set",
                     "Call it in the job's script, or in a step of it.");
}

int too_many_names(std::size_t most) {
  return wrong_usage("more than " + std::to_string(most) + " names",
                     "Leave the names out to mean all of them.");
}

JobConversation::JobConversation(JobVerb verb, std::string socket, std::uint32_t job,
                                 TaskVoice& voice)
    : verb_(std::move(verb)),
      socket_(std::move(socket)),
      job_(job),
      voice_(voice),
      away_since_(Clock::now()) {}

int JobConversation::run(const Message& request, const OnAnswer& on_answer) {
  for (;;) {
    const Status broken = converse_once(request, on_answer);
    if (code_) return *code_;
    if (const auto code = note_absence(broken.error())) return *code;
    ::poll(nullptr, 0, static_cast<int>(k_reconnect_pause.count()));
  }
}

// Returns when the answer is in code_, or with a fault.
Status JobConversation::converse_once(const Message& request, const OnAnswer& on_answer) {
  TRY_ASSIGN(DaemonConnection daemon, DaemonConnection::open(socket_));
  TRY(daemon.send(request, Clock::now() + k_patience));
  while (!code_) {
    TRY_ASSIGN(const Message message, daemon.receive(Clock::now() + k_patience));
    away_since_.reset();
    was_reached_ = true;
    code_ = take(message, on_answer);
  }
  return {};
}

std::optional<int> JobConversation::take(const Message& message, const OnAnswer& on_answer) {
  if (const auto* progress = std::get_if<Progress>(&message)) {
    voice_.progress(*progress);
    return {};
  }
  voice_.clear();
  if (const auto* refused = std::get_if<Refused>(&message)) return refusal(*refused);
  return on_answer(message);
}

int JobConversation::refusal(const Refused& refused) const {
  switch (refused.reason) {
    case RefusalReason::unknown_name:
      return wrong_usage(refused.what, verb_.what_a_name_is);
    case RefusalReason::unknown_job:
    case RefusalReason::not_permitted:
      return wrong_usage(
          "nodestaged knows no such job of yours on this node: job " + std::to_string(job_),
          "`nodestage " + verb_.name + "` works inside " + verb_.works_in +
              ", on its nodes, while it runs.");
    case RefusalReason::malformed:
      return wrong_usage("nodestaged does not accept this: " + refused.what,
                         "If the names are right, the command and the daemon are of different "
                         "releases: tell your administrators.");
    case RefusalReason::busy:
      return fault(refused.what, "Try again in a moment.");
    case RefusalReason::fault:
      break;
  }
  return daemon_fault("nodestaged refuses: " + refused.what);
}

// An exit code if there is nothing more to wait for.
std::optional<int> JobConversation::note_absence(const Error& error) {
  if (!was_reached_ && error.code == ENOENT && std::getenv("NODESTAGE_JOBID") == nullptr)
    return wrong_usage("nothing is staged on this host: no nodestaged runs here",
                       "`nodestage " + verb_.name +
                           "` works inside a job, on its nodes: srun nodestage " + verb_.name);
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

Result<StageRequest> to_request(const RequestTexts& texts) {
  StageRequest request;
  for (const std::string& text : texts.datasets) TRY(add_dataset(request, text));
  for (const std::string& text : texts.venvs) TRY(add_venv(request, text));
  for (const std::string& text : texts.outputs) TRY(add_output(request, text));
  if (request.venv) add_what_a_build_needs(*request.venv, {});
  for (const std::string& warning : look_in_time(request, Start::now).warnings)
    std::fprintf(stderr, "nodestage: warning: %s\n", warning.c_str());
  return request;
}

}  // namespace nodestage
