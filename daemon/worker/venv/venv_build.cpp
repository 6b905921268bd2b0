#include "daemon/worker/venv/venv_build.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/os/file.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/venv/builder.hpp"
#include "daemon/worker/venv/requirements.hpp"
#include "daemon/worker/venv/venv_python.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_shown_log = 4096;
constexpr std::size_t k_max_log = 64 * 1024 * 1024;
constexpr std::size_t k_shown_lines = 12;
constexpr std::size_t k_shown_bytes = 1500;

// Returns the last lines of a log that contain text, the last one first.
std::vector<std::string_view> last_words(std::string_view log, std::size_t most) {
  std::vector<std::string_view> lines;
  while (!log.empty() && lines.size() < most) {
    const std::size_t end = log.rfind('\n');
    const std::string_view line = log.substr(end == std::string_view::npos ? 0 : end + 1);
    log = log.substr(0, end == std::string_view::npos ? 0 : end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.push_back(line);
  }
  return lines;
}

// The text of a file that a build has written; "" if it is not a regular file, since a build may
// have left anything under that name.
std::string text_of_file(const std::string& path, std::size_t most) {
  const auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const auto text = read_all(fd->get(), most);
  return text ? *text : std::string();
}

// The whole log, for the functions below.
std::string text_of_log(const std::string& path) { return text_of_file(path, k_max_log); }

// Returns its last lines for a message, each after "\n  | ".
std::string last_lines(std::string_view log) {
  const auto lines = last_words(log, k_shown_lines);
  std::string text;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    text += "\n  | " + printable(shortened(*line, 300));
  }
  return text.size() <= k_shown_bytes ? text
                                      : "\n  | ..." + text.substr(text.size() - k_shown_bytes);
}

// Returns the name in pip's "No matching distribution found for NAME"; "" if that is not the cause.
std::string missing_package(std::string_view log) {
  static constexpr std::string_view k_words = "No matching distribution found for ";
  const std::size_t at = log.rfind(k_words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = log.substr(at + k_words.size());
  return std::string(rest.substr(0, rest.find_first_of(" \n=<>!~[;(")));
}

// Returns where pip searched; "" if it does not say so.
std::string searched_places(std::string_view log) {
  static constexpr std::string_view k_words = "Looking in links: ";
  const std::size_t at = log.find(k_words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = log.substr(at + k_words.size());
  return printable(shortened(rest.substr(0, rest.find('\n')), 600));
}

// The last line of a log that is still being written, for the progress.
std::string said_last(const std::string& path) {
  const auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0) return {};
  std::string text(k_shown_log, '\0');
  const off_t most = static_cast<off_t>(text.size());
  const ssize_t got =
      ::pread(fd->get(), text.data(), text.size(), std::max<off_t>(0, info.st_size - most));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  const auto words = last_words(text, 1);
  return words.empty() ? "making it" : std::string(words.front());
}

constexpr std::size_t k_max_environment = 1024 * 1024;

// $1: the file that defines `module`; $2...: the modules. The output of env -0 goes to a file.
constexpr const char* k_load_modules =
    "init=$1; shift; . \"$init\" || exit 3; for m in \"$@\"; do module load \"$m\" >&2 || exit 4; "
    "done; "
    "exec env -0";

// argv: "wheels" or "any"; the files of pip's settings, the one that counts most at the end, with
// newlines between them; then pip's. A file beside the requirements cannot pose as a module of
// pip's. The settings become variables, so that those which would put packages elsewhere reach
// neither this pip nor one that it starts. Building a source distribution starts a program, and
// installing wheels does not, so with "wheels" no program can be started.
constexpr const char* k_pip = R"(
import configparser, os, sys
sys.path[:] = [place for place in sys.path if place]
kind, files = sys.argv.pop(1), sys.argv.pop(1)
elsewhere = ('target prefix root python log cache-dir report dry-run platform python-version '
             'implementation abi').split()
def plain(name):
    return name.lower().replace('_', '-').lstrip('-')
for name in list(os.environ):
    if name.startswith('PIP_') and plain(name[4:]) in elsewhere:
        del os.environ[name]
parser = configparser.RawConfigParser()
parser.read(files.split('\n'), encoding='utf-8')
settings = {}
for section in 'global', 'install':
    if parser.has_section(section):
        settings.update((plain(name), value) for name, value in parser.items(section))
for name, value in settings.items():
    if value and name not in elsewhere:
        os.environ.setdefault('PIP_' + name.upper().replace('-', '_'), value)
os.environ['PIP_CONFIG_FILE'] = os.devnull
if kind == 'wheels':
    import resource
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
import runpy
runpy.run_module('pip', run_name='__main__', alter_sys=True)
)";
constexpr const char* k_no_sources =
    "source distributions run their authors' code, which this site does not allow while a job is "
    "staged (venv.build = \"wheels-only\")";
constexpr const char* k_other = "Give another python: python=PATH, or module=NAME";
constexpr const char* k_by_hand = "Try the same by hand: python3 -m pip install --no-index -r FILE";
constexpr const char* k_fork_refused = "[Errno 11] Resource temporarily unavailable";

constexpr const char* k_module_inits[] = {"/etc/profile.d/lmod.sh", "/etc/profile.d/z00_lmod.sh",
                                          "/etc/profile.d/modules.sh"};

}  // namespace

std::string wanted_python(const VenvItem& item) {
  return item.python.empty() || item.python == k_keep_python ? "python3" : item.python;
}

std::string python_for(const VenvItem& item, const std::vector<std::string>& environment) {
  const std::string path = value_in(environment, "PATH");
  std::string python = item.python == k_keep_python ? "" : item.python;
  if (is_program_name(python)) return program_in_path(path, python);
  for (const char* name : {"python3", "python"}) {
    if (python.empty()) python = program_in_path(path, name);
  }
  return python;
}

std::string module_init_of(const VenvRules& rules) {
  std::string init = rules.module_init;
  struct stat info {};
  for (const char* path : k_module_inits) {
    if (init.empty() && ::stat(path, &info) == 0) init = path;
  }
  return init;
}

EnvironmentBuild::EnvironmentBuild(BuildContext place)
    : place_(std::move(place)),
      deadline_(Builder::Clock::now() + std::chrono::seconds(place_.order.venv.limit_s)),
      environment_(place_.item.environment) {}

// Nothing of the build outlives it: its caches are removed, and so is a HOME for the code of source
// distributions. The user's configuration of pip, uv, and modules is read from its usual paths.
Status EnvironmentBuild::make_scratch() const {
  for (const char* name : {"/home", "/tmp", "/cache"}) {
    const std::string path = place_.scratch + name;
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return system_error(path);
  }
  return {};
}

Status EnvironmentBuild::run(std::vector<std::string> arguments, const Attempt& attempt) {
  TRY_ASSIGN(const int code, execute(std::move(arguments)));
  return code == 0 ? Status() : Status(failed(attempt, code));
}

Status EnvironmentBuild::install(std::vector<std::string> arguments, const std::string& what) {
  const auto options = install_options();
  arguments.insert(arguments.end(), options.begin(), options.end());
  TRY_ASSIGN(const int code, execute(std::move(arguments), RunIn::source_directory));
  return code == 0 ? Status() : Status(not_installed({what, k_by_hand}, code));
}

Result<int> EnvironmentBuild::execute(std::vector<std::string> arguments, RunIn place,
                                      const std::string& output) {
  TRY(make_scratch());
  const std::string home = value_in(environment_, "HOME");
  const std::string& scratch = place_.scratch;
  if (value_in(environment_, "XDG_CONFIG_HOME").empty() && !home.empty())
    set_variable(environment_, "XDG_CONFIG_HOME", home + "/.config");
  if (value_in(environment_, "PATH").empty())
    set_variable(environment_, "PATH", "/usr/local/bin:/usr/bin:/bin");
  const std::pair<const char*, std::string> k_settings[] = {
      {"TMPDIR", scratch + "/tmp"},
      {"XDG_CACHE_HOME", scratch + "/cache"},
      {"XDG_DATA_HOME", scratch + "/cache"},
      {"VIRTUALENV_OVERRIDE_APP_DATA", scratch + "/cache/virtualenv"},
      {"UV_CACHE_DIR", scratch + "/cache/uv"},
      {"UV_LINK_MODE", "copy"},
      {"UV_OFFLINE", "1"},
      {"UV_PYTHON_DOWNLOADS", "never"},
      {"PIP_NO_CACHE_DIR", "1"},
      {"PIP_NO_INPUT", "1"},
      {"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
      {"PIP_USER", "0"},
      {"PIP_REQUIRE_VIRTUALENV", "0"},
      {"PIP_PROGRESS_BAR", "off"},
      {"PYTHONNOUSERSITE", "1"},
      {"PYTHONDONTWRITEBYTECODE", "1"},
      {"LC_ALL", "C.UTF-8"}};
  for (const auto& [name, text] : k_settings) set_variable(environment_, name, text);
  if (place_.order.venv.build == VenvBuild::any)
    set_variable(environment_, "HOME", scratch + "/home");
  BuildCommand command{std::move(arguments), environment_, scratch, log(), output};
  if (place == RunIn::source_directory)
    command.directory = place_.item.source.substr(0, place_.item.source.rfind('/') + 1);
  const auto look = [this] {
    place_.report(said_last(log()));
    return check_disk();
  };
  auto code = place_.builder.run(command, deadline_, place_.stop, look);
  if (!code && code.error().code == ETIMEDOUT) {
    return Error{ETIMEDOUT,
                 shown(place_.item.source) + ": the environment was not built within " +
                     human_duration(place_.order.venv.limit_s * 1000) +
                     " (venv.limit of this site)",
                 "Stage an environment that is made already, or an archive of one",
                 last_lines(text_of_log(log()))};
  }
  return code;
}

Status EnvironmentBuild::check_disk() const {
  struct statvfs disk {};
  if (::statvfs(place_.scratch.c_str(), &disk) != 0) return {};
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free >= place_.order.leave_free_bytes) return {};
  return disk_is_full(place_.order.node, free, place_.order.leave_free_bytes);
}

Error EnvironmentBuild::failed(const Attempt& attempt, int code) const {
  return {0,
          shown(place_.item.source) + ": the environment could not be built: " + attempt.what +
              " exited with code " + std::to_string(code),
          attempt.advice, last_lines(text_of_log(log()))};
}

// "" or lines, each with a newline before it.
std::string EnvironmentBuild::where_searched(const std::string& log_text) const {
  std::string lines;
  if (const std::string places = searched_places(log_text); !places.empty())
    lines += "\nWheels were searched in: " + places;
  if (const std::string no_wheels = why_no_wheels(); !no_wheels.empty()) lines += "\n" + no_wheels;
  return lines;
}

std::string EnvironmentBuild::why_no_wheels() const {
  const std::string& wheels = place_.item.wheels;
  if (wheels.empty() || leads_to_directory(wheels)) return {};
  return "wheels=" + shown(wheels) + " is no directory on node " + place_.order.node;
}

// An installer's log says what was missing.
Error EnvironmentBuild::not_installed(const Attempt& attempt, int code) const {
  const std::string log_text = text_of_log(log());
  if (const Status reach = check_reach(place_.item.source, environment_, log_text); !reach)
    return {reach.error().code, reach.error().what, reach.error().advice, last_lines(log_text)};
  Error error = failed(attempt, code);
  error.lines += where_searched(log_text);
  const bool wheels_only = place_.order.venv.build == VenvBuild::wheels_only;
  const std::string missing = missing_package(log_text);
  if (wheels_only && log_text.find(k_fork_refused) != std::string::npos) {
    error.lines += std::string("\nOne of the requirements is not a wheel: ") + k_no_sources;
    error.advice = "Make a wheel of it (pip wheel --no-deps -w DIR ...), and give wheels=DIR";
  } else if (!missing.empty()) {
    if (wheels_only) error.lines += std::string("\nOnly wheels count: ") + k_no_sources;
    error.advice = "Put a wheel of " + shown(missing) +
                   " that fits this Python into a directory (pip download or pip wheel where "
                   "there is a network) and give wheels=DIR";
  }
  return error;
}

Status EnvironmentBuild::load_modules() {
  if (place_.item.modules.empty()) return {};
  const std::string init = module_init_of(place_.order.venv);
  struct stat info {};
  if (init.empty() || ::stat(init.c_str(), &info) != 0) {
    return fault(ENOENT,
                 "module=" + shown(place_.item.modules.front()) + ": node " + place_.order.node +
                     " has no `module` command" + (init.empty() ? "" : " (" + shown(init) + ")"),
                 "Give python=PATH instead, or ask your site's support (venv.module_init)");
  }
  std::vector<std::string> arguments{"/bin/bash",    "--noprofile", "--norc", "-c",
                                     k_load_modules, "nodestage",   init};
  arguments.insert(arguments.end(), place_.item.modules.begin(), place_.item.modules.end());
  const std::string output = place_.scratch + "/environment";
  TRY_ASSIGN(const int code, execute(std::move(arguments), RunIn::scratch, output));
  if (code != 0)
    return failed({"module load", "Try the same in a job on that node: module load " +
                                      shown(place_.item.modules.front())},
                  code);
  const std::string text = text_of_file(output, k_max_environment);
  std::vector<std::string> loaded;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view variable = take_part(rest, '\0');
    if (is_variable_name(name_of_variable(variable)) &&
        variable.find('=') != std::string_view::npos)
      loaded.emplace_back(variable);
  }
  environment_ = std::move(loaded);
  return {};
}

Result<std::string> EnvironmentBuild::find_python() const {
  std::string python = python_for(place_.item, environment_);
  if (!python.empty() && is_program(python)) return python;
  const std::string name = shown(wanted_python(place_.item));
  const char* where = place_.item.modules.empty() ? "submission" : "modules";
  return fault(ENOENT,
               shown(place_.item.source) + ": node " + place_.order.node + " has no " +
                   (python.empty() ? name + " in the PATH of the " + where : shown(python)),
               "Give one that it has: python=PATH, or module=NAME");
}

std::vector<std::string> EnvironmentBuild::install_options() const {
  std::vector<std::string> options{"--no-index"};
  std::vector<std::string> directories = place_.order.venv.find_links;
  if (!place_.item.wheels.empty()) directories.insert(directories.begin(), place_.item.wheels);
  for (const auto& directory : directories)
    options.insert(options.end(), {"--find-links", directory});
  if (place_.order.venv.build == VenvBuild::wheels_only)
    options.insert(options.end(), {"--only-binary", ":all:"});
  options.insert(options.end(), {"-r", place_.item.source});
  return options;
}

Status EnvironmentBuild::build(const std::string& directory) {
  if (place_.order.venv.build == VenvBuild::off) {
    return fault(
        EPERM,
        shown(place_.item.source) +
            ": this site builds no environments while a job is staged (venv.build = \"off\")",
        "Make the environment before, and stage that or an archive of it");
  }
  TRY(check_is_requirements(place_.item.source));
  if (place_.order.venv.build == VenvBuild::wheels_only) TRY(check_wheels_only(place_.item.source));
  TRY(load_modules());
  TRY(check_reach(place_.item.source, environment_));
  TRY_ASSIGN(const std::string python, find_python());
  if (place_.order.venv.installer == VenvInstaller::uv) return build_with_uv(python, directory);
  return build_with_pip(python, directory);
}

// Some distributions have a Python without ensurepip but with virtualenv.
Status EnvironmentBuild::build_with_pip(const std::string& python, const std::string& directory) {
  TRY_ASSIGN(const int code, execute({python, "-m", "venv", "--clear", directory}));
  if (code != 0) {
    TRY_ASSIGN(const int second,
               execute({python, "-m", "virtualenv", "--no-download", "--clear", directory}));
    if (second != 0)
      return not_installed({shown(python) + " -m venv, and -m virtualenv after it,", k_other},
                           second);
  }
  const char* may_start = place_.order.venv.build == VenvBuild::wheels_only ? "wheels" : "any";
  std::string settings;
  for (const auto& file : pip_settings(environment_, value_in(place_.item.environment, "HOME")))
    settings += file + "\n";
  return install({directory + "/bin/python", "-c", k_pip, may_start, settings, "install",
                  "--no-compile", "--retries", "0"},
                 "pip");
}

Status EnvironmentBuild::build_with_uv(const std::string& python, const std::string& directory) {
  const std::string& uv = place_.order.venv.uv;
  if (!is_program(uv)) {
    return fault(ENOENT, "node " + place_.order.node + " has no " + shown(uv) + " (venv.uv)",
                 "Tell your site's support");
  }
  TRY(run({uv, "venv", "--python", python, directory}, {"uv venv", k_other}));
  return install({uv, "pip", "install", "--python", directory + "/bin/python"}, "uv pip install");
}

}  // namespace nodestage
