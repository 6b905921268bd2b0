#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/request/job_environment.hpp"
#include "common/request/option_text.hpp"
#include "common/request/request_warnings.hpp"
#include "common/request/source_names.hpp"
#include "common/request/submission.hpp"
#include "common/settings/plugin_settings.hpp"
#include "common/talk/batch_script.hpp"
#include "common/text/human.hpp"
#include "plugin/hooks.hpp"

namespace nodestage {
namespace {

constexpr const char* k_option_names[] = {"", "stage-dataset", "stage-out", "stage-wait",
                                          "stage-venv"};
constexpr const char* k_request_name = "NODESTAGE_SPEC";

const char* name_of(StageOption option) { return k_option_names[static_cast<int>(option)]; }

// The options of the current component. Slurm can pass the same text more than once (environment,
// script, command line), so each text is taken once.
struct Gathered {
  StageRequest request;
  std::vector<std::string> texts;
};

// Allocated at the first option and never freed: no destructor may run when Slurm unloads the
// plugin.
Gathered*& gathered() {
  static constinit Gathered* options = nullptr;
  return options;
}

bool in_allocation() {
  return spank_context() == S_CTX_LOCAL && std::getenv("SLURM_JOB_ID") != nullptr;
}

std::string exported_name(StageOption option) {
  std::string name = std::string("SLURM_SPANK__SLURM_SPANK_OPTION_nodestage_") + name_of(option);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Slurm exports a heterogeneous job's options after each component, and reads them in again with
// the options of the next one: before those of its command line, and after those of its script,
// which can have the same text. Slurm hands over the variable itself, so its address tells. A
// variable that the user has set was dropped by submit_init().
bool is_of_the_component_before(StageOption option, std::string_view text) {
  const char* exported = std::getenv(exported_name(option).c_str());
  return exported != nullptr && exported == text.data();
}

constexpr const char* k_too_late =
    "staging happens when the allocation starts, and this one has started: give the option to "
    "sbatch or salloc (or to an srun outside of a job)";

// Prints the lines of `cause` (common/request/option_text.hpp).
int refuse(const Error& cause) {
  std::istringstream lines(cause.text());
  for (std::string line; std::getline(lines, line);) slurm_error("%s", line.c_str());
  return -1;
}

Status gather(StageRequest& request, StageOption option, std::string_view text) {
  switch (option) {
    case StageOption::dataset:
      return add_dataset(request, text);
    case StageOption::output:
      return add_output(request, text);
    case StageOption::venv:
      return add_venv(request, text);
    case StageOption::wait: {
      TRY_ASSIGN(request.wait, parse_wait_option(text));
      return {};
    }
  }
  return Error{EINVAL, "unknown option"};
}

void warn(const std::string& text) { slurm_spank_log("nodestage: warning: %s", text.c_str()); }

void warn_of_all(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) warn(printable(text));
}

// The outputs of the components before this one, of a heterogeneous job. Never freed, as above.
std::vector<OutputItem>& earlier_outputs() {
  static constinit std::vector<OutputItem>* outputs = nullptr;
  if (outputs == nullptr) outputs = new std::vector<OutputItem>;
  return *outputs;
}

// sbatch becomes the other user only after the options have been read.
void warn_of_home(const std::vector<std::string>& texts) {
  const auto names_home = [](const std::string& text) {
    return text.find("=~/") != std::string::npos || text.find(":~/") != std::string::npos;
  };
  if (is_for_another_user() && std::any_of(texts.begin(), texts.end(), names_home))
    warn("~ is the home directory of root here; for the job of another user (--uid), write ~USER");
}

void warn_of_shared_targets(const StageRequest& request) {
  if (const auto array = array_of_sbatch(); array && !array->empty())
    warn_of_all(tasks_of_one_target(request.outputs));
  std::vector<OutputItem>& earlier = earlier_outputs();
  warn_of_all(components_of_one_target(request.outputs, earlier));
  earlier.insert(earlier.end(), request.outputs.begin(), request.outputs.end());
}

// Once, of all components.
void warn_of_ignored_directives() {
  static constinit bool has_looked = false;
  if (spank_context() != S_CTX_ALLOCATOR || std::exchange(has_looked, true)) return;
  if (const std::string path = script_of_sbatch(); !path.empty())
    if (const std::string text = ignored_directives(script_text(path)); !text.empty()) warn(text);
}

// A file system that does not answer is no reason to refuse.
Status check_tasks(const StageRequest& request, const std::optional<std::string>& array) {
  if (!array || !array->empty() || !needs_step_names(request)) return {};
  const auto source = ask_apart(k_ask_patience, [&request] {
    for (const DatasetItem& item : request.datasets)
      if (std::string found = source_with_index(item); !item.optional && !found.empty())
        return found;
    return std::string();
  });
  if (!source || source->empty()) return {};
  Error fault = no_array(*source);
  return Error{fault.code, "nodestage: --stage-dataset: " + printable(fault.what), fault.advice};
}

// Warns of data that no node has space for. The sizes of the nodes' disks come from the controller,
// so only requests with much data ask for them.
void warn_of_size(std::uint64_t bytes) {
  constexpr std::uint64_t k_large = 1ULL << 30;
  if (bytes < k_large) return;
  const auto disk = largest_node_disk();
  if (!disk || bytes <= *disk) return;
  warn("the datasets have at least " + human_bytes(bytes) + ", and no node has more than " +
       human_bytes(*disk) + " of local disk (TmpDisk): staging them will fail");
}

void explain_to_salloc() {
  if (salloc_command() != SallocCommand::local) return;
  slurm_spank_log(
      "nodestage: the data is staged on the job's nodes, and this shell's environment cannot be "
      "changed; reach the data with srun, for example: srun sh -c 'ls \"$SLURM_TMPDIR\"'");
}

// Without PrologFlags=Alloc, a node's prolog runs at its first step, with the environment that srun
// sends; this must contain the job's request. (srun itself drops what it had imported.)
int forward_request(spank_t spank) {
  const char* request = std::getenv("SLURM_SPANK_NODESTAGE_SPEC");
  if (request != nullptr && std::string_view(request).size() <= k_max_request_bytes)
    spank_job_control_setenv(spank, k_request_name, request, 1);
  return 0;
}

// What submit_exit() has to know. (No destructor may run when Slurm unloads the plugin.)
struct Submitted {
  std::uint32_t outer_job = 0;  // in which this program was started
  bool has_outputs = false;
};
constinit Submitted submitted;

bool makes_the_job_here() {
  return spank_context() == S_CTX_LOCAL || salloc_command() != SallocCommand::not_salloc;
}

// The notice of results that were not delivered, in the directory in which the job was submitted.
std::string notice_of(std::uint32_t job) {
  const std::string start = "nodestage-" + std::to_string(job);
  auto names = DirectoryStream::at(AT_FDCWD, ".");
  while (const auto name = names.next())
    if (name->starts_with(start) && name->ends_with(".txt") &&
        std::string_view(".-").find((*name)[start.size()]) != std::string_view::npos)
      return std::string(*name);
  return {};
}

// Sleeps for that time. Returns whether the user wants to go on: by Ctrl-C.
bool sleeps_through(std::chrono::milliseconds pause) {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaddset(&ends, signal);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &ends, &before);
  const timespec time{pause.count() / 1000, (pause.count() % 1000) * 1'000'000};
  const bool is_ended = ::sigtimedwait(&ends, nullptr, &time) > 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !is_ended;
}

// Waits while Slurm calls the job COMPLETING, that is for its epilogs. Returns whether they ended.
bool wait_for_epilogs(std::uint32_t job, std::chrono::seconds limit) {
  constexpr std::chrono::milliseconds k_most_pause{2000};
  const auto begun = std::chrono::steady_clock::now();
  std::chrono::milliseconds pause{250};
  for (bool has_said = false; job_end(job) == SlurmJobEnd::completing;) {
    const auto waited = std::chrono::steady_clock::now() - begun;
    if (waited >= limit) return false;
    if (waited >= std::chrono::seconds(1) && !std::exchange(has_said, true))
      slurm_spank_log("nodestage: waiting for the results of job %u, which are being delivered",
                      job);
    if (!sleeps_through(pause)) return false;
    pause = std::min(2 * pause, k_most_pause);
  }
  return true;
}

}  // namespace

int submit_exit(const PluginSettings& settings) {
  if (!submitted.has_outputs || !makes_the_job_here()) return 0;
  const std::uint32_t job = number_from_environment("SLURM_JOB_ID");
  if (job == 0 || job == submitted.outer_job) return 0;  // Slurm has made none
  if (job_end(job) == SlurmJobEnd::runs) return 0;       // salloc --no-shell
  const bool have_ended = wait_for_epilogs(job, settings.results_wait);
  const std::string notice = notice_of(job);
  if (!notice.empty())
    slurm_spank_log(
        "nodestage: not all results of job %u are in their targets: %s says why, and what to do",
        job, printable(notice).c_str());
  else if (have_ended)
    slurm_spank_log(
        "nodestage: job %u has ended on its nodes; `nodestage report %u` shows which of its "
        "results have arrived",
        job, job);
  else
    slurm_spank_log(
        "nodestage: the results of job %u are still being delivered; `nodestage report %u` shows "
        "what has arrived",
        job, job);
  return 0;
}

int submit_init(spank_t spank, const PluginSettings& settings) {
  submitted.outer_job = number_from_environment("SLURM_JOB_ID");
  for (const auto& complaint : settings.complaints) slurm_error("nodestage: %s", complaint.c_str());
  drop_inherited_variables(in_allocation() ? SubmitFor::step : SubmitFor::allocation);
  if (in_allocation()) return 0;
  // srun copied SLURM_SPANK_* from the environment before it called this hook.
  for (const char* name :
       {k_request_name, "_SLURM_SPANK_OPTION_nodestage_stage_dataset",
        "_SLURM_SPANK_OPTION_nodestage_stage_out", "_SLURM_SPANK_OPTION_nodestage_stage_venv"}) {
    spank_job_control_unsetenv(spank, name);
  }
  return 0;
}

int submit_option(StageOption option, std::string_view text) {
  if (!in_allocation() && is_of_the_component_before(option, text)) return 0;
  if (in_allocation() && option != StageOption::wait) {
    return refuse(marked(name_of(option), text, {0, text.size()}, {EINVAL, k_too_late}));
  }
  if (gathered() == nullptr) gathered() = new Gathered;
  Gathered& options = *gathered();
  std::string seen = std::string(name_of(option)) + "=" + std::string(text);
  auto& texts = options.texts;
  if (option != StageOption::wait && std::find(texts.begin(), texts.end(), seen) != texts.end())
    return 0;
  if (const Status status = gather(options.request, option, text); !status)
    return refuse(status.error());
  texts.push_back(std::move(seen));
  return 0;
}

int submit_request(spank_t spank, const PluginSettings& settings) {
  if (in_allocation()) return forward_request(spank);
  warn_of_ignored_directives();
  Gathered options = gathered() == nullptr ? Gathered{} : std::exchange(*gathered(), {});
  StageRequest& request = options.request;
  if (request.datasets.empty() && request.outputs.empty() && !request.venv) {
    spank_job_control_unsetenv(spank, k_request_name);  // of the previous component
    return 0;
  }
  if (!is_allowed(settings)) {
    slurm_error("nodestage: --stage-dataset, --stage-venv and --stage-out are not open to you yet");
    slurm_error("Submit the job without them, or ask your administrators to be admitted.");
    return -1;
  }
  if (spank_context() == S_CTX_LOCAL && srun_names_a_job()) {
    slurm_error("nodestage: srun --jobid cannot stage: %s", k_too_late);
    return -1;
  }
  if (request.venv) add_what_a_build_needs(*request.venv, settings.venv_environment);
  const auto array = array_of_sbatch();
  if (const Status tasks = check_tasks(request, array); !tasks) return refuse(tasks.error());
  const auto text = request_text(request);
  if (!text) {
    slurm_error("nodestage: %s", printable(text.error().what).c_str());
    return -1;
  }
  if (spank_job_control_setenv(spank, k_request_name, text.value().c_str(), 1) != ESPANK_SUCCESS) {
    slurm_error("nodestage: the request cannot be put into the job's environment");
    return -1;
  }
  submitted.has_outputs |= !request.outputs.empty();
  const RequestLook look = look_in_time(request, Start::later, array.value_or(""));
  warn_of_all(look.warnings);
  warn_of_home(options.texts);
  warn_of_shared_targets(request);
  warn_of_size(look.least_bytes);
  explain_to_salloc();
  return 0;
}

}  // namespace nodestage
