#include "cli/push/push.hpp"

#include <unistd.h>

#include <cstdlib>

#include "cli/base/conversation.hpp"
#include "cli/base/job_conversation.hpp"
#include "cli/base/push_directory.hpp"
#include "cli/base/this_node.hpp"
#include "cli/push/push_in_run.hpp"
#include "common/os/terminal.hpp"
#include "common/wire/request_limits.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_line_interval{10};
constexpr const char* k_what_a_name_is =
    "SOURCE is written as in --stage-out, or is that path below $SLURM_TMPDIR. Without one, all "
    "are "
    "delivered.";

int take_answer(const Message& answer, TaskVoice& voice) {
  const auto say = [&voice](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) voice.say(line);
  };
  if (std::holds_alternative<Accepted>(answer)) return 0;
  if (const auto* ready = std::get_if<Ready>(&answer)) {
    say(ready->lines);
    return 0;
  }
  const auto* failed = std::get_if<Failed>(&answer);
  if (failed == nullptr) return daemon_fault("nodestaged gave an unexpected answer");
  say(failed->lines);
  voice.say(failed->lines.empty() ? failed->cause : k_not_all_delivered);
  return k_fault;
}

int push_in_job(const PushArguments& arguments, std::uint32_t job, TaskVoice& voice) {
  const Push ask{job, static_cast<std::uint32_t>(voice.report_interval().count()),
                 static_cast<std::uint8_t>(arguments.no_wait ? 0 : 1), arguments.names};
  return JobConversation({"push", "a job with --stage-out", k_what_a_name_is}, arguments.socket,
                         job, voice)
      .run(ask, [&voice](const Message& answer) { return take_answer(answer, voice); });
}

}  // namespace

std::string output_source_name(std::string name, const std::string& job_directory) {
  const auto drop_slashes_at_end = [](std::string& path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  };
  drop_slashes_at_end(name);
  std::string top = job_directory;
  drop_slashes_at_end(top);
  top += '/';
  if (!job_directory.empty() && name.starts_with(top)) name.erase(0, top.size());
  while (name.starts_with("./")) name.erase(0, 2);
  return name;
}

int push_outputs(PushArguments arguments) {
  const char* directory = std::getenv("SLURM_TMPDIR");
  if (arguments.names.size() > k_max_request_items) return too_many_names(k_max_request_items);
  std::size_t bytes = 0;
  for (std::string& name : arguments.names) {
    bytes += name.size();
    if (bytes > k_max_request_bytes)
      return wrong_usage("the names are longer than those of any job", k_what_a_name_is);
    name = output_source_name(name, directory == nullptr ? "" : directory);
    if (name.empty())
      return wrong_usage("'" + name + "' is not a source of --stage-out", k_what_a_name_is);
  }
  TaskVoice voice(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), node_name(),
                  k_line_interval);
  if (const char* place = std::getenv(k_push_directory_variable); place != nullptr)
    return push_in_run(place, arguments, voice);
  if (std::getenv("NODESTAGE_RUN") != nullptr)
    return wrong_usage("there is nothing to deliver: `nodestage run` has no --stage-out",
                       "Add it before the command: nodestage run --stage-out=SOURCE:TARGET ...");
  const std::uint32_t job = job_of_environment();
  if (job == 0) return outside_of_a_job();
  return push_in_job(arguments, job, voice);
}

}  // namespace nodestage
