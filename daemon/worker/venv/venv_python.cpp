#include "daemon/worker/venv/venv_python.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "common/os/file.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/encodings.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/venv/builder.hpp"
#include "daemon/worker/venv/requirements.hpp"

namespace nodestage {

std::string editable_source(std::string_view direct_url) {
  try {
    const auto json = nlohmann::json::parse(direct_url);
    const std::string url = json.value("url", "");
    if (!json.contains("dir_info") || !json["dir_info"].value("editable", false)) return {};
    return percent_decoded(url.starts_with(k_file_scheme) ? url.substr(k_file_scheme.size()) : url);
  } catch (const nlohmann::json::exception&) {  // thrown by the library
    return {};
  }
}

std::vector<std::string> pth_paths(std::string_view pth) {
  std::vector<std::string> paths;
  while (!pth.empty()) {
    const std::string_view line = trimmed(take_part(pth, '\n'));
    if (line.starts_with('/')) paths.emplace_back(line);
  }
  return paths;
}

std::string place_in_activate(std::string_view activate) {
  static constexpr std::string_view k_name = "VIRTUAL_ENV=";
  for (std::size_t at = 0; (at = activate.find(k_name, at)) != std::string_view::npos;) {
    const bool begins =
        at == 0 || std::string_view("\n \t").find(activate[at - 1]) != std::string_view::npos;
    at += k_name.size();
    if (!begins) continue;
    std::string_view value = trimmed(activate.substr(at, activate.find('\n', at) - at));
    if (value.size() >= 2 && (value[0] == '\'' || value[0] == '"')) {
      value = value.substr(1, value.find(value[0], 1) - 1);
    }
    while (value.size() > 1 && value.ends_with('/')) value.remove_suffix(1);
    if (value.starts_with('/') && value.find_first_of("$`") == std::string_view::npos)
      return std::string(value);
  }
  return {};
}

std::string venv_setting(std::string_view pyvenv_cfg, std::string_view key) {
  while (!pyvenv_cfg.empty()) {
    const std::string_view line = take_part(pyvenv_cfg, '\n');
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && trimmed(line.substr(0, equals)) == key)
      return std::string(trimmed(line.substr(equals + 1)));
  }
  return {};
}

std::string with_venv_setting(std::string_view pyvenv_cfg, std::string_view key,
                              const std::string& value) {
  std::string result;
  while (!pyvenv_cfg.empty()) {
    const std::string_view line = take_part(pyvenv_cfg, '\n');
    const bool is_meant = trimmed(line.substr(0, line.find('='))) == key;
    result.append(is_meant ? std::string(key) + " = " + value : std::string(line)) += '\n';
  }
  return result;
}

namespace {

constexpr std::size_t k_start_of_script = 4096;
constexpr int k_max_links = 16;

// Never opens through a link.
Result<Fd> open_in(int dir_fd, const std::string& path, int flags) {
  return open_beneath(dir_fd, path, flags, 0, RESOLVE_NO_SYMLINKS);
}

}  // namespace

std::string real_path(const std::string& path) {
  char real[PATH_MAX];
  return ::realpath(path.c_str(), real) == nullptr ? "" : real;
}

std::string text_in(int dir_fd, const std::string& path, std::size_t most) {
  const auto fd = open_in(dir_fd, path, k_open_source);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const auto text = read_all(fd->get(), most);
  return text ? *text : std::string();
}

std::vector<std::string> names_in(int dir_fd, const std::string& path) {
  std::vector<std::string> names;
  auto fd = open_in(dir_fd, path, O_RDONLY | O_DIRECTORY);
  if (!fd) return names;
  DirectoryStream directory(std::move(*fd));
  while (const auto name = directory.next()) names.emplace_back(*name);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

// What bin/python leads to: a path outside, k_to_own_python, or the name of a file in bin.
std::string end_of_links(int bin_fd, const VenvMove& move, std::string name) {
  for (int i = 0; i < k_max_links; ++i) {
    std::string target = link_text(bin_fd, name);
    if (target.empty()) return name;
    const std::string inside = move.moved(target);
    if (inside.starts_with(move.to() + "/bin/")) target = inside.substr(move.to().size() + 5);
    if (target.find('/') == std::string::npos) {
      name = target;
    } else if (target.starts_with('/') || target.starts_with(k_to_own_python)) {
      return target;
    } else {
      return move.from().empty() ? target : move.from().front() + "/bin/" + target;
    }
  }
  return name;
}

std::string version_in(const std::string& name) {
  static constexpr std::string_view k_start = "python";
  if (!name.starts_with(k_start)) return {};
  const std::string version = name.substr(k_start.size());
  const bool good = version.find('.') != std::string::npos &&
                    version.find_first_not_of("0123456789.") == std::string::npos;
  return good ? version : std::string();
}

// Returns the version of "/usr/bin/python3", which is a link to python3.11.
std::string version_of(const std::string& python) {
  const std::string path = real_path(python);
  return version_in(path.substr(path.rfind('/') + 1));
}

Error no_interpreter(const std::string& source, const std::string& python,
                     const std::string& node) {
  return fault(ENOENT,
               shown(source) + ": was made with " + shown(python) + ", and node " + node +
                   " has no such program",
               "Make the environment with a Python that the compute nodes have, or stage a "
               "requirements.txt with python=PATH or module=NAME");
}

// Looks in `home` of pyvenv.cfg, for an environment with a copy of the program.
std::string python_at_home(const std::string& home, const std::string& version) {
  for (const std::string& suffix : {version, std::string("3"), std::string()}) {
    if (const std::string program = home + "/python" + suffix; is_program(program)) return program;
  }
  return {};
}

bool is_a_place(const std::string& path, const std::string& home) {
  return path.size() > 1 && path.starts_with('/') && path != "/usr" && path != "/usr/local" &&
         path + "/bin" != home;
}

}  // namespace

VenvKind venv_kind(int dir_fd) {
  if (has_entry(dir_fd, "pyvenv.cfg")) return VenvKind::venv;
  return has_entry(dir_fd, "conda-meta") && has_entry(dir_fd, "bin") ? VenvKind::conda
                                                                     : VenvKind::none;
}

Status check_whole_environment(const std::string& path) {
  const std::string whole = environment_around(path);
  if (whole.empty()) return {};
  return fault(EINVAL, shown(path) + ": is a part of the environment " + shown(whole),
               "Name the environment itself: --stage-venv=" + shown(whole));
}

Status check_is_requirements(const std::string& path) {
  TRY(check_whole_environment(path));
  const auto text = read_requirements(path);
  if (!text) {
    return fault(
        text.error().code, shown(path) + ": cannot be read: " + text.error().text(),
        "--stage-venv takes a virtual environment, an archive of one, or a requirements.txt");
  }
  const bool is_other = path.ends_with(".toml") || path.ends_with(".yml") ||
                        path.ends_with(".yaml") || path.ends_with(".lock") ||
                        path.ends_with("/Pipfile");
  if (!is_other && text->find('\0') == std::string::npos) return {};
  if (path.ends_with(".yml") || path.ends_with(".yaml")) {
    return fault(EINVAL,
                 shown(path) + ": describes a conda environment, and no node makes one of it",
                 "Make it once (conda env create --file " + shown(path) +
                     "), and stage its directory: --stage-venv=~/miniconda3/envs/NAME");
  }
  return fault(EINVAL, shown(path) + ": is not a requirements file",
               "--stage-venv takes a virtual environment, an archive of one, or a requirements.txt "
               "(made by: pip freeze > requirements.txt)");
}

Result<VenvPython> venv_python(int dir_fd, const VenvMove& move, const std::string& source,
                               const std::string& node) {
  VenvPython python;
  for (const auto& name : names_in(dir_fd, "lib")) {
    if (python.version.empty()) python.version = version_in(name);
  }
  if (venv_kind(dir_fd) == VenvKind::conda) return python;
  const std::string config = text_in(dir_fd, "pyvenv.cfg");
  const std::string home = venv_setting(config, "home");
  python.has_packages = lower(venv_setting(config, "include-system-site-packages")) == "true";
  const auto bin = open_in(dir_fd, "bin", O_PATH | O_DIRECTORY);
  if (!bin || (!has_entry(bin->get(), "python") && !has_entry(bin->get(), "python3"))) {
    return fault(ENOENT,
                 shown(source) + ": has no bin/python: it is not a complete virtual environment",
                 "Make it again with: python3 -m venv DIR");
  }
  const std::string name = has_entry(bin->get(), "python") ? "python" : "python3";
  const std::string end = end_of_links(bin->get(), move, name);
  // No program of an environment is run: what it has is compiled, or stays.
  if (end.starts_with(k_to_own_python) && open_in(dir_fd, end.substr(3), O_PATH))
    return VenvPython{};
  // A copy (--copies) names it in pyvenv.cfg alone.
  const bool has_own = home.ends_with("/.python/bin") && open_in(dir_fd, ".python/bin", O_PATH);
  if (has_own && end.find('/') == std::string::npos) return VenvPython{};
  if (end.starts_with('/')) {
    if (!is_program(end)) return no_interpreter(source, end, node);
    python.path = end;
  } else if (!has_entry(bin->get(), end)) {
    return no_interpreter(source, "bin/" + end, node);
  } else {
    python.path = python_at_home(home, python.version);
    if (python.path.empty()) return no_interpreter(source, home + "/python3", node);
  }
  const std::string version = version_of(python.path);
  if (!version.empty() && !python.version.empty() && version != python.version) {
    return fault(0,
                 shown(source) + ": was made for Python " + python.version + ", and " +
                     shown(python.path) + " on node " + node + " is " + version,
                 "Make the environment again on a host with the same software as the nodes");
  }
  return python;
}

std::vector<std::string> old_places(int dir_fd) {
  static constexpr std::string_view k_venv = " -m venv ";
  std::vector<std::string> places;
  const std::string config = text_in(dir_fd, "pyvenv.cfg");
  const std::string home = venv_setting(config, "home");
  const auto add = [&](std::string place) {
    while (place.size() > 1 && place.ends_with('/')) place.pop_back();
    if (is_a_place(place, home) && std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  };
  add(place_in_activate(text_in(dir_fd, "bin/activate")));
  const std::string command = venv_setting(config, "command");
  if (const auto at = command.find(k_venv); at != std::string::npos) {
    const auto path = command.find(" /", at + k_venv.size() - 1);
    if (path != std::string::npos) add(command.substr(path + 1));
  }
  std::map<std::string, int> counts;
  for (const auto& name : names_in(dir_fd, "bin")) {
    const auto script = interpreter_of(text_in(dir_fd, "bin/" + name).substr(0, k_start_of_script));
    const std::size_t bin = script ? script->path.rfind("/bin/python") : std::string::npos;
    if (bin != std::string::npos) ++counts[script->path.substr(0, bin)];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != counts.end()) add(most->first);
  return places;
}

}  // namespace nodestage
