// Holds conversations with the daemon and prints errors, for all verbs of the command.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/talk/task_voice.hpp"
#include "common/wire/daemon_client.hpp"

namespace nodestage {

inline constexpr std::chrono::seconds k_daemon_wait{10};  // for each message of an answer

inline constexpr int k_fault = 1;
inline constexpr int k_wrong_usage = 2;
inline constexpr int k_no_such_job = 3;

// Print both to stderr; return k_fault and k_wrong_usage.
int fault(const std::string& what, const std::string& to_do);
int wrong_usage(const std::string& what, const std::string& to_do);
int daemon_fault(const std::string& what);

// The same of a request that got no answer: where no daemon runs, says what to type instead.
int no_answer(const Error& error, const std::string& to_type);

// Sends `request` and passes each message of the answer to on_message until that returns an exit
// code, which is the result. A fault: the daemon does not answer.
using OnMessage = std::function<std::optional<int>(const Message&)>;
Result<int> exchange(const std::string& socket, const Message& request,
                     const OnMessage& on_message);

// Returns the rows of that kind in the answer; a fault also if the daemon refuses, or does not end
// it.
template <typename Row>
Result<std::vector<Row>> ask_for_rows(const std::string& socket, const Message& request) {
  std::vector<Row> rows;
  Status end = Error{EPROTO, "the daemon's answer has no end"};
  TRY(exchange(socket, request, [&](const Message& message) -> std::optional<int> {
    if (const auto* row = std::get_if<Row>(&message)) {
      rows.push_back(*row);
      return {};
    }
    if (const auto* refused = std::get_if<Refused>(&message)) end = Error{EPERM, refused->what};
    if (std::holds_alternative<Accepted>(message)) end = Status();
    return 0;
  }));
  TRY(end);
  return rows;
}

// JobConversation: sends a request of a process in a job to the daemon of its node, which can take
// long to answer. Shows the progress, and asks again if the daemon restarts.

// The verb that asks, for messages.
struct JobVerb {
  std::string name;            // "wait"
  std::string works_in;        // "a job with --stage-out"
  std::string what_a_name_is;  // a sentence about its NAMEs
};

// Returns the job of this process, from its environment; 0 outside of a job.
std::uint32_t job_of_environment();
// Print what is wrong, and return k_wrong_usage.
int outside_of_a_job();
int too_many_names(std::size_t most);

class JobConversation {
 public:
  using OnAnswer = std::function<int(const Message&)>;  // returns the exit code

  // Borrows `voice`. The request is about `job`.
  JobConversation(JobVerb verb, std::string socket, std::uint32_t job, TaskVoice& voice);

  // Passes the answer to on_answer, except for progress and refusals, which it handles itself.
  // The result is the exit code.
  int run(const Message& request, const OnAnswer& on_answer);

 private:
  Status converse_once(const Message& request, const OnAnswer& on_answer);
  std::optional<int> take(const Message& message, const OnAnswer& on_answer);
  [[nodiscard]] int refusal(const Refused& refused) const;
  std::optional<int> note_absence(const Error& error);

  JobVerb verb_;
  std::string socket_;
  std::uint32_t job_;
  TaskVoice& voice_;
  std::optional<int> code_;
  std::optional<Deadline> away_since_;
  bool was_reached_ = false;
  bool absence_mentioned_ = false;
};

// Parses --stage-dataset, --stage-venv and --stage-out as `run` and `plan` take them.

struct RequestTexts {  // in the order of the command line
  std::vector<std::string> datasets;
  std::vector<std::string> venvs;
  std::vector<std::string> outputs;
};

// Parses the options as the plugin does, for staging that starts now; prints warnings to stderr.
// The fault marks the wrong part of an option's text (common/request/option_text.hpp).
Result<StageRequest> to_request(const RequestTexts& texts);

// What to do about a fault of to_request(), and about options that contradict each other.
inline constexpr const char* k_option_advice = "`man 7 nodestage` describes every key.";
inline constexpr const char* k_options_advice = "Change the options so that they fit together.";

}  // namespace nodestage
