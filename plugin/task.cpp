#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/request/job_environment.hpp"
#include "common/request/option_text.hpp"
#include "common/talk/batch_script.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/daemon_client.hpp"
#include "plugin/hooks.hpp"
#include "plugin/marker.hpp"
#include "plugin/stage_wait.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_exit_wait{1};

// The step's options; set in slurmstepd, read in its forked children.
struct StepOptions {
  bool asks_for_staging = false;
  StageWait wait = StageWait::all;
};
constinit StepOptions step_options;

// Renames the process: proctrack/linuxproc does not kill processes named slurmstepd.
class ProcessName {
 public:
  explicit ProcessName(const char* name) {
    ::prctl(PR_GET_NAME, old_);
    ::prctl(PR_SET_NAME, name);
  }
  ProcessName(const ProcessName&) = delete;
  ProcessName& operator=(const ProcessName&) = delete;
  ~ProcessName() { ::prctl(PR_SET_NAME, old_); }

 private:
  char old_[16] = {};
};

std::uint32_t job_of(spank_t spank) { return spank_item_or<std::uint32_t>(spank, S_JOB_ID, 0); }

std::uint32_t step_of(spank_t spank) {
  return spank_item_or<std::uint32_t>(spank, S_JOB_STEPID, k_slurm_no_value);
}

// Never true for the batch script or an interactive step.
bool only_observes(spank_t spank) {
  return step_of(spank) <= k_slurm_last_step && !spank_variable(spank, k_observer_variable).empty();
}

// For a step that goes on, or only looks, it is about this node alone.
Wait wait_message(spank_t spank, std::uint8_t goes_on = 0) {
  Wait wait;
  wait.goes_on = goes_on;
  wait.scope = goes_on == 0 ? WaitScope::all : WaitScope::node;
  wait.job = job_of(spank);
  wait.step = step_of(spank);
  const auto array_job = spank_item_or<std::uint32_t>(spank, S_JOB_ARRAY_ID, 0);
  const auto array_task = spank_item_or(spank, S_JOB_ARRAY_TASK_ID, k_slurm_no_value);
  if (array_job != 0 && array_job < k_slurm_no_value && array_task < k_slurm_no_value) {
    wait.array_job = array_job;
    wait.array_task = array_task;
  }
  wait.job_name = spank_variable(spank, "SLURM_JOB_NAME");
  return wait;
}

bool expects_staging(spank_t spank) {
  return step_options.asks_for_staging || !spank_variable(spank, "NODESTAGE_JOBID").empty();
}

// Serves a step that asks for staging, or whose job staged on another node, on a node where no
// prolog ran our hook. In a heterogeneous job that can be correct, since each component's step
// carries the options of all components.
int unannounced(spank_t spank, const PluginSettings& settings, TaskVoice& voice) {
  if (!spank_variable(spank, "SLURM_HET_SIZE").empty()) {
    voice.say("note: nothing was staged for this component of the job on this node");
    return 0;
  }
  if (::access(settings.runtime_dir.c_str(), F_OK) != 0) {
    voice.say(settings.runtime_dir +
              " does not exist where this task runs, so nothing was staged for it: nodestaged has "
              "never run on this node, or a plugin that puts tasks into containers, such as pyxis, "
              "comes before nodestage in plugstack.conf. Tell your administrators.");
    return -1;
  }
  voice.say(
      "slurmd has not announced this job to nodestage, so nothing was staged: was slurmd restarted "
      "after the plugin was installed? Tell your administrators. (srun --jobid cannot stage: give "
      "the option to the sbatch or salloc that creates the job. A requeued job that is forced to "
      "start within two minutes runs without a prolog: submit it again.)");
  slurm_info(
      "nodestage: job %u: slurmd has not announced this job to nodestage: was slurmd "
      "restarted after the plugin was installed?",
      job_of(spank));
  return -1;
}

// A variable of the job's environment, of any length.
std::string long_variable(spank_t spank, std::string_view name) {
  char** environment = spank_item_or<char**>(spank, S_JOB_ENV, nullptr);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view variable(*environment);
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('='))
      return std::string(variable.substr(name.size() + 1));
  }
  return {};
}

void leave_venv(spank_t spank, const std::string& venv) {
  if (venv.empty()) return;
  for (const char* name : k_active_variables)
    if (long_variable(spank, name) == venv) spank_unsetenv(spank, name);
  const std::string path = long_variable(spank, "PATH");
  if (!path.empty()) spank_setenv(spank, "PATH", path_without(path, venv + "/bin").c_str(), 1);
}

void change(spank_t spank, const std::vector<VariableChange>& changes) {
  for (const auto& [name, value] : changes) {
    if (value)
      spank_setenv(spank, name.c_str(), value->c_str(), 1);
    else
      spank_unsetenv(spank, name.c_str());
  }
}

VariableLookup lookup_in(spank_t spank) {
  return [spank](const char* name) { return long_variable(spank, name); };
}

// srun passes on its caller's environment: in a heterogeneous job, that of a component that staged
// can reach a node that did not.
void drop_environment_of_another_job(spank_t spank) {
  const std::string job = spank_variable(spank, "NODESTAGE_JOBID");
  if (job.empty() || job == std::to_string(job_of(spank))) return;
  std::vector<std::string> names;
  char** environment = spank_item_or<char**>(spank, S_JOB_ENV, nullptr);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view variable(*environment);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (is_of_a_staged_job(name)) names.emplace_back(name);
  }
  leave_venv(spank, long_variable(spank, "NODESTAGE_VENV"));
  change(spank, cache_removal_of(lookup_in(spank)));
  for (const auto& name : names) spank_unsetenv(spank, name.c_str());
}

// A step whose environment comes from a process of this job with the virtual environment active
// keeps later changes to it (deactivate, module load).
void activate_venv(spank_t spank, const std::vector<std::string>& environment) {
  const std::string venv = venv_in(environment);
  const bool is_inherited =
      spank_variable(spank, "NODESTAGE_JOBID") == std::to_string(job_of(spank)) &&
      long_variable(spank, "NODESTAGE_VENV") == venv;
  if (venv.empty() || is_inherited) return;
  change(spank, activation_of(venv, long_variable(spank, "PATH")));
}

void set_environment(spank_t spank, const std::vector<std::string>& environment) {
  activate_venv(spank, environment);
  change(spank, cache_binding_of(environment, std::to_string(job_of(spank)), lookup_in(spank)));
  for (const auto& variable : environment) {
    const std::string name = settable_name(variable);
    if (name.empty()) continue;
    spank_setenv(spank, name.c_str(), variable.c_str() + name.size() + 1, 1);
  }
  spank_setenv(spank, "NODESTAGE_JOBID", std::to_string(job_of(spank)).c_str(), 1);
}

// Returns how this task of the step speaks.
Speech speech_of(spank_t spank) {
  if (spank_item_or(spank, S_TASK_ID, 0) != 0) return Speech::silent;
  const bool first_node = spank_item_or<std::uint32_t>(spank, S_JOB_NODEID, 0) == 0;
  return first_node || step_options.wait != StageWait::all ? Speech::aloud : Speech::results;
}

void say_of_login_shell(spank_t spank, const std::vector<std::string>& environment,
                        TaskVoice& voice) {
  int count = 0;
  char** words = nullptr;
  if (venv_in(environment).empty() || !voice.speaks() ||
      spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS)
    return;
  const std::string note = login_shell_note({words, words + count});
  if (!note.empty()) voice.say(note);
}

// Each component of a heterogeneous job has its own prologs, and so its own barrier.
void say_what_is_not_waited_for(spank_t spank, TaskVoice& voice) {
  const bool batch = step_of(spank) == k_slurm_batch_step;
  if (!batch || step_options.wait != StageWait::all) return;
  if (spank_variable(spank, "SLURM_HET_SIZE").empty()) return;
  voice.say(
      "note: this is a heterogeneous job: the script waited for the nodes of its first component; "
      "the steps of the others wait for theirs");
}

DeadlySignals::Words last_words(spank_t spank, const TaskVoice& voice) {
  const auto limit = parse_number<std::time_t>(spank_variable(spank, "SLURM_JOB_END_TIME"));
  return {voice.shows_progress(), voice.beginning(), limit.value_or(0)};
}

// Data in memory lie on a tmpfs that Slurm may have hidden behind one of the job's own. An async
// dataset may still be on its way: its directory is there from the beginning.
Status check_memory(const std::vector<std::string>& environment) {
  constexpr std::string_view k_area = "/.nodestage-memory/";
  for (const std::string& variable : environment) {
    const std::size_t area = variable.find(k_area);
    if (area == std::string::npos || settable_name(variable).empty()) continue;
    const std::size_t begin = variable.find('=') + 1;
    const std::size_t end = variable.find('/', area + k_area.size());
    const std::string directory =
        variable.substr(begin, end == std::string::npos ? end : end - begin);
    if (::access(directory.c_str(), F_OK) == 0 || errno != ENOENT) continue;
    return Error{ENOENT,
                 "the data in memory are in " + printable(directory) +
                     ", which this job does not see: Slurm gives each job a directory of its own "
                     "there",
                 "Leave out in=memory: the data go to the node's local disk then. Or ask your "
                 "administrators for another directory (memory.path in nodestaged.toml)."};
  }
  return {};
}

int wait_and_set(spank_t spank, const PluginSettings& settings, const std::string& node,
                 TaskVoice& voice) {
  const StageWaitOrder order{wait_message(spank), step_options.wait, node};
  StageWaitResult result;
  {
    const ProcessName name("nodestage-wait");
    const DeadlySignals signals(STDERR_FILENO, last_words(spank, voice));
    result = wait_for_stage(order, settings, voice);
  }
  if (result.verdict == StageVerdict::fail) return -1;
  say_what_is_not_waited_for(spank, voice);
  if (const Status seen = check_memory(result.environment); !seen) {
    voice.say(seen.error().text());
    return -1;
  }
  set_environment(spank, result.environment);
  say_of_login_shell(spank, result.environment, voice);
  const std::string directory = spank_variable(spank, "SLURM_TMPDIR");
  if (voice.speaks() && !directory.empty()) compare_when_started(directory, voice.beginning());
  return 0;
}

}  // namespace

void step_option(StageOption option, std::string_view text) {
  if (option != StageOption::wait) {
    step_options.asks_for_staging = true;
  } else if (const auto wait = parse_wait_option(text)) {
    step_options.wait = wait.value();
  }
}

int task_init_privileged(spank_t spank, const PluginSettings& settings) {
  const bool looks = only_observes(spank);
  if (!looks && step_options.wait != StageWait::none) return 0;
  const std::uint32_t job = job_of(spank);
  if (read_marker(settings.runtime_dir, job).state != MarkerState::ask_daemon) return 0;
  const Wait wait = wait_message(spank, looks ? k_looks : k_runs);
  const Deadline limit = Clock::now() + k_exit_wait;
  static_cast<void>(!ask_daemon(settings.socket, wait, limit, limit));
  return 0;
}

int task_init(spank_t spank, const PluginSettings& settings) {
  if (only_observes(spank)) return 0;
  drop_environment_of_another_job(spank);
  const Marker marker = read_marker(settings.runtime_dir, job_of(spank));
  if (marker.state == MarkerState::absent && !expects_staging(spank)) return 0;
  const std::string node = spank_variable(spank, "SLURMD_NODENAME");
  const bool moves_lines = obeys_escapes(STDERR_FILENO, spank_variable(spank, "TERM"));
  TaskVoice voice(speech_of(spank), STDERR_FILENO, moves_lines, node, settings.progress);
  voice.set_listener(DeadlySignals::note_progress);
  switch (marker.state) {
    case MarkerState::absent:
      return unannounced(spank, settings, voice);
    case MarkerState::failed:
      voice.say(marker.message);
      return -1;
    case MarkerState::ask_daemon:
      break;
  }
  return wait_and_set(spank, settings, node, voice);
}

int task_exit(spank_t spank, const PluginSettings& settings) {
  static constinit bool gave_up = false;  // one task's wait uses up the whole step's limit
  static constinit bool has_reported_run = false;
  const std::uint32_t job = job_of(spank);
  if (read_marker(settings.runtime_dir, job).state != MarkerState::ask_daemon) return 0;
  const Deadline limit = Clock::now() + k_exit_wait;
  const auto send = [&](const Message& message) {
    if (!gave_up) {
      const auto reply = ask_daemon(settings.socket, message, limit, limit);
      if (reply) return;
      gave_up = true;
      slurm_info(
          "nodestage: job %u: the end of a task could not be reported to nodestaged: %s; "
          "the epilog reports it",
          job, printable(reply.error().what).c_str());
    }
    if (const Status kept = keep_pending(settings.runtime_dir, job, encode_message(message)); !kept)
      slurm_info("nodestage: job %u: the end of a task cannot be kept for the epilog: %s", job,
                 printable(kept.error().text()).c_str());
  };
  // The daemon may have been away when the task started; all other steps wait for its verdict.
  const bool looks = only_observes(spank);
  if (looks || (step_options.wait == StageWait::none && !std::exchange(has_reported_run, true))) {
    send(wait_message(spank, looks ? k_looked : k_runs));
    if (looks) return 0;
  }
  const int status = spank_item_or(spank, S_TASK_EXIT_STATUS, -1);
  send(Exited{job, step_of(spank), static_cast<std::uint32_t>(status)});
  return 0;
}

}  // namespace nodestage
