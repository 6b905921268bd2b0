#include "cli/status/wait.hpp"

#include <unistd.h>

#include <cstdlib>

#include "cli/base/conversation.hpp"
#include "cli/base/job_conversation.hpp"
#include "cli/base/this_node.hpp"
#include "common/os/terminal.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_line_interval{10};
constexpr std::chrono::seconds k_quiet_interval{2};
constexpr const char* k_what_a_name_is =
    "NAME is the <NAME> of NODESTAGE_DATASET_<NAME>, or a path below $SLURM_TMPDIR.";

int converse_until_staged(const WaitArguments& arguments, std::uint32_t job) {
  const auto voice_of = [](Speech speech) {
    return TaskVoice(speech, STDERR_FILENO, obeys_escapes(STDERR_FILENO), node_name(),
                     k_line_interval);
  };
  TaskVoice voice = voice_of(arguments.quiet ? Speech::silent : Speech::aloud);
  const auto interval =
      arguments.quiet ? std::chrono::milliseconds(k_quiet_interval) : voice.report_interval();
  const Await ask{job, static_cast<std::uint32_t>(interval.count()), arguments.names};
  return JobConversation({"wait", "a job with --stage-dataset or --stage-out", k_what_a_name_is},
                         arguments.socket, job, voice)
      .run(ask, [&](const Message& answer) {
        if (const auto* ready = std::get_if<Ready>(&answer)) {
          for (const std::string& line : ready->lines) voice.say(line);
          return 0;
        }
        const auto* failed = std::get_if<Failed>(&answer);
        if (failed == nullptr) return daemon_fault("nodestaged gave an unexpected answer");
        voice_of(Speech::aloud).say(failed->cause);
        return k_fault;
      });
}

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
  if (job == 0) return outside_of_a_job();
  if (arguments.names.size() > k_max_await_names) return too_many_names(k_max_await_names);
  for (const std::string& name : arguments.names) {
    if (name.empty() || name.size() > k_max_await_name_bytes)
      return wrong_usage("'" + name + "' is not the name of a dataset", k_what_a_name_is);
  }
  return converse_until_staged(arguments, job);
}

}  // namespace nodestage
