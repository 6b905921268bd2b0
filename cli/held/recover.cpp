#include "cli/held/recover.hpp"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cli/base/conversation.hpp"
#include "cli/base/job_id.hpp"
#include "cli/base/node_rows.hpp"
#include "cli/base/this_node.hpp"
#include "common/build_info.hpp"
#include "common/os/terminal.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr int k_nothing_held = 2;
constexpr std::chrono::seconds k_line_interval{10};

// By text only: links can differ on the node.
std::string absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  char here[PATH_MAX];
  return ::getcwd(here, sizeof here) == nullptr ? "" : std::string(here) + "/" + path;
}

int become_srun(const RecoverArguments& arguments, const std::string& directory) {
  std::vector<std::string> words = {
      "srun",      "-w",      arguments.node, "-N1",    "-n1", "--stage-wait=none",
      "nodestage", "recover", arguments.job,  directory};
  if (arguments.socket != k_socket_path) words.push_back("--socket=" + arguments.socket);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return fault(std::string("srun cannot be started: ") + std::strerror(errno),
               "--node needs Slurm's srun; on the node itself, omit --node.");
}

int nothing_held(const RecoverArguments& arguments) {
  fault("this node holds no results of a job " + arguments.job + " of yours",
        "The file nodestage-JOBID.txt beside the job's output names the node: give it with "
        "--node=NODE.\n`nodestage held` lists what this node holds.");
  return k_nothing_held;
}

int refused(const RecoverArguments& arguments, const Refused& answer) {
  if (answer.reason == RefusalReason::not_permitted || answer.reason == RefusalReason::unknown_job)
    return nothing_held(arguments);
  return fault(answer.what, "The results of job " + arguments.job + " stay held.");
}

// The daemon reports once a second, and does not know since when its caller waits.
Progress since(Progress progress, Deadline begun) {
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  progress.elapsed_ms = static_cast<std::uint64_t>(passed.count());
  return progress;
}

}  // namespace

int recover(const RecoverArguments& arguments) {
  const auto id = parse_job_id(arguments.job);
  if (!id)
    return wrong_usage("'" + arguments.job + "' is not a job id",
                       "JOBID is a number, or JOBID.RESTART.");
  const Recover ask{id->job, id->restart, absolute(arguments.directory)};
  if (ask.directory.empty())
    return fault("the current directory does not exist", "Give an absolute DIR.");
  if (!arguments.node.empty()) return become_srun(arguments, ask.directory);
  TaskVoice voice(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), node_name(),
                  k_line_interval);
  const auto begun = Clock::now();
  const auto code =
      exchange(arguments.socket, ask, [&](const Message& message) -> std::optional<int> {
        if (const auto* progress = std::get_if<Progress>(&message)) {
          if (progress->phase == ProgressPhase::staging) voice.progress(since(*progress, begun));
          return {};
        }
        voice.clear();
        if (const auto* answer = std::get_if<Refused>(&message)) return refused(arguments, *answer);
        const auto* recovered = std::get_if<Recovered>(&message);
        if (recovered == nullptr) return daemon_fault("nodestaged gave an unexpected answer");
        for (const std::string& line : recovered->lines)
          std::printf("%s\n", printable(line).c_str());
        std::printf("this node no longer holds results of job %s\n", arguments.job.c_str());
        return 0;
      });
  if (code) return *code;
  if (!is_daemon_away(code.error())) return daemon_fault(code.error().text());
  return no_daemon_here(code.error().text(),
                        "Name the node that holds the results: nodestage recover " + arguments.job +
                            " DIR --node=NODE. The end of the job's output names it, and "
                            "`nodestage held --all-nodes` lists all.");
}

}  // namespace nodestage
