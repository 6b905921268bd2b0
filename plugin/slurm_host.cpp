#include "plugin/slurm_host.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <slurm/slurm.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/slurm/slurm_text.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {

static_assert(k_slurm_last_step == SLURM_MAX_NORMAL_STEP_ID &&
              k_slurm_batch_step == SLURM_BATCH_SCRIPT && k_slurm_no_value == NO_VAL);

std::string spank_variable(spank_t spank, const char* name) {
  char value[1024];
  return spank_getenv(spank, name, value, sizeof value) == ESPANK_SUCCESS ? value : "";
}

namespace {

template <typename T>
T* host_symbol(const char* name) {
  return reinterpret_cast<T*>(::dlsym(RTLD_DEFAULT, name));
}

const slurm_conf_t* host_conf() { return host_symbol<const slurm_conf_t>("slurm_conf"); }

// The program's options are opaque here: slurm_opt_t differs between releases.
bool option_is_set(const char* name) {
  void* const options = host_symbol<void>("opt");
  auto* const is_set = host_symbol<bool(void*, const char*)>("slurm_option_isset");
  return options != nullptr && is_set != nullptr && is_set(options, name);
}

bool is_srun(std::string_view program) { return program.substr(program.rfind('/') + 1) == "srun"; }

bool uses_interactive_step() {
  const slurm_conf_t* conf = host_conf();
  return conf != nullptr && conf->launch_params != nullptr &&
         std::strstr(conf->launch_params, "use_interactive_step") != nullptr;
}

// Returns the arguments of this process, its name first; none if they cannot be read.
std::vector<std::string> own_arguments() {
  constexpr std::size_t k_max_bytes = 4 << 20;
  std::vector<std::string> arguments;
  const auto text = read_file(AT_FDCWD, "/proc/self/cmdline", k_max_bytes);
  if (!text) return arguments;
  for (std::size_t at = 0; at < text->size(); at += arguments.back().size() + 1)
    arguments.emplace_back(text->c_str() + at);
  return arguments;
}

// For a salloc that keeps its command among its options (as 24.11 does): getopt has stopped at the
// command. With several components, each with a getopt run of its own, the command is not known.
SallocCommand command_after_options() {
  const std::vector<std::string> arguments = own_arguments();
  if (host_symbol<void>("saopt") == nullptr || arguments.empty()) return SallocCommand::not_salloc;
  const auto colon = std::find(arguments.begin(), arguments.end(), ":");
  if (colon != arguments.end()) return SallocCommand::none;
  const auto first = static_cast<std::size_t>(::optind);
  if (first < arguments.size())
    return is_srun(arguments[first]) ? SallocCommand::step : SallocCommand::local;
  if (option_is_set("no-shell")) return SallocCommand::none;
  return uses_interactive_step() ? SallocCommand::step : SallocCommand::local;
}

// Slurm 25.11 has separate limits for prolog and epilog.
template <typename Conf>
std::uint16_t epilog_timeout_of(const Conf& conf) {
  if constexpr (requires { conf.epilog_timeout; }) {
    return conf.epilog_timeout;
  } else {
    return conf.prolog_epilog_timeout;
  }
}

// Returns whether the program has read slurm.conf. From 23.11 on, that of a prolog or epilog gets
// some of the settings from slurmd instead: no limit of time, and before 24.05 no PrologFlags.
bool is_read(const slurm_conf_t& conf) { return conf.control_machine != nullptr; }

// Returns a setting of the file that slurmd has read. It is read once, since a program that needs
// it runs one prolog or epilog.
std::optional<std::string> setting_of_file(const char* key) {
  static const std::optional<SlurmConf> conf = [] {
    const char* const path = std::getenv("SLURM_CONF");
    return read_slurm_conf(path == nullptr ? "/etc/slurm/slurm.conf" : path);
  }();
  if (!conf) return std::nullopt;
  return conf->value(key);
}

// A setting that the program has, if it has read slurm.conf, or the file's.
std::string setting(const char* key, char* slurm_conf_t::*member) {
  const slurm_conf_t* conf = host_conf();
  if (conf == nullptr) return {};
  if (!is_read(*conf)) return setting_of_file(key).value_or("");
  return conf->*member == nullptr ? "" : conf->*member;
}

std::uint64_t epilog_timeout_of_file() {
  for (const char* key : {"EpilogTimeout", "PrologEpilogTimeout"})
    if (const auto text = setting_of_file(key); text && !text->empty())
      return std::strtoul(text->c_str(), nullptr, 0);  // as Slurm does, which takes octal, too
  return 0;
}

// The job's host list, in the prolog and epilog.
std::string prolog_host_list() {
  const std::string list = text_from_environment("SLURM_JOB_NODELIST");
  return list.empty() ? text_from_environment("SLURM_NODELIST") : list;  // 22.05 has the latter
}

// In their order; none if the list cannot be parsed.
std::vector<std::string> names_in_host_list(const std::string& host_list) {
  // hostlist_t is a pointer in one release and the struct in another; both are opaque.
  auto* const create = host_symbol<void*(const char*)>("slurm_hostlist_create");
  auto* const shift = host_symbol<char*(void*)>("slurm_hostlist_shift");
  auto* const destroy = host_symbol<void(void*)>("slurm_hostlist_destroy");
  std::vector<std::string> names;
  if (create == nullptr || shift == nullptr || destroy == nullptr) return names;
  void* const list = create(host_list.c_str());
  if (list == nullptr) return names;
  while (char* const name = shift(list)) {
    names.emplace_back(name);
    std::free(name);
  }
  destroy(list);
  return names;
}

// PrologFlags=Alloc in slurm.conf; true if that is not known.
bool prologs_run_at_allocation() {
  const slurm_conf_t* conf = host_conf();
  if (conf == nullptr || (conf->prolog_flags & PROLOG_FLAG_ALLOC) != 0) return true;
  if (is_read(*conf)) return false;
  const auto flags = setting_of_file("PrologFlags");
  return !flags || implies_alloc(*flags);
}

}  // namespace

std::optional<std::chrono::seconds> epilog_timeout() {
  const slurm_conf_t* conf = host_conf();
  if (conf == nullptr) return std::nullopt;
  const std::uint64_t seconds =
      is_read(*conf) ? epilog_timeout_of(*conf) : epilog_timeout_of_file();
  if (seconds == 0 || seconds >= NO_VAL16) return std::nullopt;
  return std::chrono::seconds(seconds);
}

bool jobs_have_cgroups() {
  const std::string type = setting("ProctrackType", &slurm_conf_t::proctrack_type);
  return type.empty() || type == "proctrack/cgroup";
}

std::optional<std::uint64_t> largest_node_disk() {
  const slurm_conf_t* conf = host_conf();
  if (conf == nullptr || conf->tmp_fs == nullptr || std::string_view(conf->tmp_fs) == "/tmp")
    return std::nullopt;
  auto* const load = host_symbol<decltype(slurm_load_node)>("slurm_load_node");
  auto* const free = host_symbol<decltype(slurm_free_node_info_msg)>("slurm_free_node_info_msg");
  node_info_msg_t* nodes = nullptr;
  if (load == nullptr || free == nullptr || load(0, &nodes, 0) != SLURM_SUCCESS)
    return std::nullopt;
  std::uint64_t largest = 0;  // MiB
  for (std::uint32_t i = 0; i < nodes->record_count; ++i)
    largest = std::max<std::uint64_t>(largest, nodes->node_array[i].tmp_disk);
  free(nodes);
  if (largest == 0) return std::nullopt;
  return largest << 20;
}

bool powers_down(const std::string& node) {
  if (setting("SuspendProgram", &slurm_conf_t::suspend_program).empty()) return false;
  const auto spared =
      names_in_host_list(setting("SuspendExcNodes", &slurm_conf_t::suspend_exc_nodes));
  return std::find(spared.begin(), spared.end(), node) == spared.end();
}

SallocCommand salloc_command() {
  const int* argc = host_symbol<const int>("command_argc");
  char** const* argv = host_symbol<char** const>("command_argv");
  if (argc == nullptr || argv == nullptr) return command_after_options();
  if (*argc == 0 || *argv == nullptr) return SallocCommand::none;  // --no-shell
  const std::string_view program = (*argv)[0];
  if (is_srun(program)) return SallocCommand::step;
  // salloc fills in its default command before init_post_opt: the user's shell, or with
  // LaunchParameters=use_interactive_step `/bin/sh -c "[DIR/]srun --interactive ..."`.
  const bool srun = *argc == 3 && program == "/bin/sh" &&
                    std::string_view((*argv)[2]).find("srun ") != std::string_view::npos;
  return uses_interactive_step() && srun ? SallocCommand::step : SallocCommand::local;
}

SlurmJobEnd job_end(std::uint32_t job) {
  auto* const load = host_symbol<decltype(slurm_load_job)>("slurm_load_job");
  auto* const free = host_symbol<decltype(slurm_free_job_info_msg)>("slurm_free_job_info_msg");
  job_info_msg_t* jobs = nullptr;
  if (load == nullptr || free == nullptr || load(&jobs, job, 0) != SLURM_SUCCESS)
    return SlurmJobEnd::unknown;
  SlurmJobEnd end = jobs->record_count == 0 ? SlurmJobEnd::unknown : SlurmJobEnd::ended;
  for (std::uint32_t i = 0; i < jobs->record_count; ++i) {
    const std::uint32_t state = jobs->job_array[i].job_state;
    if ((state & JOB_COMPLETING) != 0) {
      end = SlurmJobEnd::completing;
    } else if ((state & JOB_STATE_BASE) < JOB_COMPLETE && end != SlurmJobEnd::completing) {
      end = SlurmJobEnd::runs;
    }
  }
  free(jobs);
  return end;
}

bool srun_names_a_job() { return option_is_set("jobid"); }

// The text is the program's, and stays.
std::optional<std::string> array_of_sbatch() {
  void* const options = host_symbol<void>("opt");
  auto* const get = host_symbol<char*(void*, const char*)>("slurm_option_get");
  if (options == nullptr || get == nullptr) return {};
  if (!option_is_set("array")) return "";
  const char* const text = get(options, "array");
  return text == nullptr ? std::optional<std::string>() : text;
}

// getopt has stopped at the script. Components on the command line have a getopt run each.
std::string script_of_sbatch() {
  const std::vector<std::string> arguments = own_arguments();
  const bool is_sbatch = !arguments.empty() && last_part(arguments.front()) == "sbatch";
  if (!is_sbatch || option_is_set("wrap") ||
      std::find(arguments.begin(), arguments.end(), ":") != arguments.end())
    return {};
  const auto first = static_cast<std::size_t>(::optind);
  return first < arguments.size() ? arguments[first] : "/proc/self/fd/0";
}

bool is_for_another_user() { return ::getuid() == 0 && option_is_set("uid"); }

namespace {

// What a message has left beside the request and the other fields.
constexpr std::size_t k_max_list_bytes = k_max_message_bytes - k_max_request_bytes - 16 * 1024;

std::size_t list_bytes(const std::vector<std::string>& names) {
  std::size_t bytes = 0;
  for (const auto& name : names) bytes += sizeof(std::uint32_t) + name.size();
  return bytes;
}

// For an unknown index or a list that is too short, the first node's CPUs.
std::uint32_t cpus_of(std::uint32_t node_index) {
  const std::string cpus = text_from_environment("SLURM_JOB_CPUS_PER_NODE");
  if (const auto here = cpus_of_node(cpus, node_index)) return *here;
  return cpus_of_node(cpus, 0).value_or(1);
}

void add_nodes(Begin& begin) {
  std::vector<std::string> names = names_in_host_list(prolog_host_list());
  const auto here = std::find(names.begin(), names.end(), begin.node);
  if (here == names.end()) return;
  begin.node_count = static_cast<std::uint32_t>(names.size());
  begin.node_index = static_cast<std::uint32_t>(here - names.begin());
  begin.slurm_ways = prologs_run_at_allocation() ? k_at_allocation : 0;
  if (list_bytes(names) > k_max_list_bytes) return;
  begin.first_node = names.front();
  if (begin.node_index == 0) begin.nodes = std::move(names);
}

}  // namespace

std::string text_from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::uint32_t number_from_environment(const char* name) {
  return parse_number<std::uint32_t>(text_from_environment(name)).value_or(0);
}

std::string requested_staging() { return text_from_environment("SPANK_NODESTAGE_SPEC"); }

Begin begin_from_environment() {
  Begin begin;
  begin.job = number_from_environment("SLURM_JOB_ID");
  begin.restart = number_from_environment("SLURM_JOB_RESTART_COUNT");
  begin.uid = number_from_environment("SLURM_JOB_UID");
  begin.gid = number_from_environment("SLURM_JOB_GID");
  begin.user = text_from_environment("SLURM_JOB_USER");
  begin.node = text_from_environment("SLURMD_NODENAME");
  begin.node_count = std::max(1U, number_from_environment("SLURM_JOB_NUM_NODES"));
  add_nodes(begin);
  if (powers_down(begin.node)) begin.slurm_ways |= k_powers_down;
  begin.cpus = cpus_of(begin.node_index);
  begin.work_dir = text_from_environment("SLURM_JOB_WORK_DIR");
  begin.stdout_path = text_from_environment("SLURM_JOB_STDOUT");
  if (begin.stdout_path.size() > PATH_MAX) begin.stdout_path.clear();
  begin.request = requested_staging();
  if (const std::uint32_t first = number_from_environment("SLURM_HET_JOB_ID"); first != 0)
    begin.het_job = first;
  return begin;
}

End end_from_environment() {
  End end;
  end.job = number_from_environment("SLURM_JOB_ID");
  // The count comes from the job's credential, which not every epilog has.
  if (!text_from_environment("SLURM_JOB_RESTART_COUNT").empty())
    end.restart = number_from_environment("SLURM_JOB_RESTART_COUNT");
  end.exit_code = number_from_environment("SLURM_JOB_EXIT_CODE");
  return end;
}

}  // namespace nodestage
