// Holds conversations with the daemon and prints errors, for all verbs of the command.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

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

// Sends `request` and passes each message of the answer to on_message until that returns an exit
// code, which is the result. If the daemon does not answer, prints that and returns k_fault.
using OnMessage = std::function<std::optional<int>(const Message&)>;
int converse(const std::string& socket, const Message& request, const OnMessage& on_message);

// Does the same, but the caller reports the fault.
Result<int> exchange(const std::string& socket, const Message& request,
                     const OnMessage& on_message);

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

}  // namespace nodestage
