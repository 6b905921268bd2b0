// The SPANK boundary: every symbol that Slurm looks for. Each hook calls a function in the file of
// its context. No exception leaves a hook, since that would terminate slurmd or slurmstepd.
//
//   context     file            hooks
//   allocator,  submit.cpp      init, option callback, init_post_opt, exit
//     local
//   slurmd      (here)          init, which only checks the settings
//   job script  job_script.cpp  job_prolog, job_epilog
//   remote      task.cpp        init, option callback, task_init_privileged, task_init, task_exit
#include <exception>
#include <span>

#include "common/settings/plugin_settings.hpp"
#include "plugin/hooks.hpp"
#include "plugin/slurm_host.hpp"

extern "C" {
// A C++ const has internal linkage unless it was declared extern before.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(nodestage, NODESTAGE_VERSION_NUMBER)
}

namespace nodestage {
namespace {

// Runs the body of a hook. Returns `on_exception` if library code throws (mostly bad_alloc).
template <typename Body>
int guarded(const char* hook, int on_exception, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& fault) {
    slurm_error("nodestage: %s: %s", hook, fault.what());
  } catch (...) {
    slurm_error("nodestage: %s: unknown exception", hook);
  }
  return on_exception;
}

PluginSettings settings_of(int argc, char** argv) {
  return parse_settings(std::span(argv, static_cast<std::size_t>(argc)));
}

bool submits() { return spank_context() == S_CTX_ALLOCATOR || spank_context() == S_CTX_LOCAL; }

int take_option(int number, const char* text, int remote) noexcept {
  return guarded("option", remote != 0 ? 0 : -1, [&] {
    const auto option = static_cast<StageOption>(number);
    const char* given = text == nullptr ? "" : text;
    if (remote == 0) return submit_option(option, given);
    step_option(option, given);
    return 0;
  });
}

struct OptionHelp {
  StageOption option;
  const char* name;
  const char* argument;
  const char* usage;
};

// --help has 23 columns for name and argument and 50 for the usage; it wraps longer texts.
constexpr OptionHelp k_options[] = {
    {StageOption::dataset, "stage-dataset", "SRC",
     "copy or unpack into $SLURM_TMPDIR: ~/d.tar[:DEST]"},
    {StageOption::venv, "stage-venv", "SRC",
     "Python environment for $SLURM_TMPDIR: ~/env, reqs.txt"},
    {StageOption::output, "stage-out", "SRC:DST", "copy back when the job ends: results:~/out_%j"},
    {StageOption::wait, "stage-wait", "WHAT", "wait for staging on all nodes: all|node|none"},
};

// spank.h takes char*, and copies the text.
void register_options(spank_t spank) {
  for (const auto& help : k_options) {
    spank_option option{const_cast<char*>(help.name),  const_cast<char*>(help.argument),
                        const_cast<char*>(help.usage), 1,
                        static_cast<int>(help.option), take_option};
    spank_option_register(spank, &option);
  }
}

int init(spank_t spank, int argc, char** argv) {
  switch (spank_context()) {
    case S_CTX_ALLOCATOR:
    case S_CTX_LOCAL:
      register_options(spank);
      return submit_init(spank, settings_of(argc, argv));
    case S_CTX_REMOTE:
      register_options(spank);
      return 0;
    case S_CTX_SLURMD:
      for (const auto& complaint : settings_of(argc, argv).complaints)
        slurm_error("nodestage: %s", complaint.c_str());
      return 0;
    default:
      return 0;
  }
}

}  // namespace
}  // namespace nodestage

using namespace nodestage;

extern "C" {

int slurm_spank_init(spank_t spank, int argc, char** argv) {
  return guarded("init", 0, [&] { return init(spank, argc, argv); });
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char** argv) {
  if (!submits()) return 0;
  return guarded("init_post_opt", -1,
                 [&] { return submit_request(spank, settings_of(argc, argv)); });
}

int slurm_spank_exit(spank_t, int argc, char** argv) {
  if (!submits()) return 0;
  return guarded("exit", 0, [&] { return submit_exit(settings_of(argc, argv)); });
}

int slurm_spank_job_prolog(spank_t, int argc, char** argv) {
  return guarded("job_prolog", 0, [&] { return job_prolog(settings_of(argc, argv)); });
}

int slurm_spank_job_epilog(spank_t, int argc, char** argv) {
  return guarded("job_epilog", 0, [&] { return job_epilog(settings_of(argc, argv)); });
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char** argv) {
  return guarded("task_init_privileged", 0,
                 [&] { return task_init_privileged(spank, settings_of(argc, argv)); });
}

int slurm_spank_task_init(spank_t spank, int argc, char** argv) {
  return guarded("task_init", -1, [&] { return task_init(spank, settings_of(argc, argv)); });
}

int slurm_spank_task_exit(spank_t spank, int argc, char** argv) {
  return guarded("task_exit", 0, [&] { return task_exit(spank, settings_of(argc, argv)); });
}

}  // extern "C"
