#include "plugin/stage_wait.hpp"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <string_view>

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
  if (!is_silent && !is_daemon_away(error)) {
    return fail("nodestaged cannot be asked (" + error.what + "). Tell your administrators.");
  }
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
    if (auto result = connection ? listen(*connection) : note_absence(connection.error())) {
      return std::move(*result);
    }
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

}  // namespace nodestage
