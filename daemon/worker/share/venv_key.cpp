#include "daemon/worker/share/venv_key.hpp"

#include <fcntl.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/request/venv_environment.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/venv/build_variables.hpp"
#include "daemon/worker/venv/requirements.hpp"
#include "daemon/worker/venv/venv_build.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_text = 4 * 1024 * 1024;

// By its content. Returns false if it does not exist.
bool add_text(ShareKey& key, const std::string& path) {
  const auto file = open_at(AT_FDCWD, path, k_open_source);
  if (!file) return false;
  const auto text = read_all(file->get(), k_max_text);
  if (!text) {
    key.refuse(shown(path) + ": " + text.error().text());
    return true;
  }
  key.add_content(path, file->get(), *text);
  return true;
}

std::vector<std::string> settings_of(const VenvItem& item, VenvInstaller installer) {
  const std::string home = value_in(item.environment, "HOME");
  const std::string directory = item.source.substr(0, item.source.rfind('/') + 1);
  return installer == VenvInstaller::uv ? uv_settings(item.environment, home, directory)
                                        : pip_settings(item.environment, home);
}

void add_settings(ShareKey& key, const VenvItem& item, VenvInstaller installer) {
  for (const auto& path : settings_of(item, installer)) {
    if (path.starts_with('/') && add_text(key, path)) key.add("settings", std::string_view(path));
  }
}

// Directories that a variable lists, separated by blanks (pip) or commas (uv).
void add_listed(std::vector<std::string>& directories, std::string_view list) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find_first_of(" ,"));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    if (one.starts_with('/')) directories.emplace_back(one);
  }
}

std::vector<std::string> wheel_directories(const VenvItem& item, const IdentifyOrder& order,
                                           const RequirementFiles& files) {
  std::vector<std::string> directories = order.venv.find_links;
  if (!item.wheels.empty()) directories.insert(directories.begin(), item.wheels);
  directories.insert(directories.end(), files.directories.begin(), files.directories.end());
  for (const char* name : {"PIP_FIND_LINKS", "UV_FIND_LINKS"})
    add_listed(directories, value_in(item.environment, name));
  return directories;
}

void add_interpreter(ShareKey& key, const VenvItem& item, const IdentifyOrder& order) {
  key.add("modules", item.modules);
  if (!item.modules.empty()) {
    const std::string init = module_init_of(order.venv);
    if (!init.empty()) key.add_program("module_init", init);
    if (item.python.empty() || is_program_name(item.python))
      return key.add("python", std::string_view(item.python));
  }
  const std::string python = python_for(item, item.environment);
  if (python.empty())
    return key.refuse("this node has no " + (item.python.empty() ? "python3" : item.python) +
                      " in the PATH of the submission");
  key.add_program("python", python);
}

void add_requirements(ShareKey& key, const VenvItem& item, const IdentifyOrder& order) {
  key.add("installer", order.venv.installer == VenvInstaller::uv ? 1U : 0U);
  if (order.venv.installer == VenvInstaller::uv) key.add_program("uv", order.venv.uv);
  const RequirementFiles files = files_of_requirements(item.source);
  if (!files.unknown.empty()) key.refuse(files.unknown);
  key.add("texts", files.texts.size());
  for (const auto& path : files.texts) {
    if (!key.is_refused() && !add_text(key, path)) key.refuse(shown(path) + " cannot be read");
  }
  for (const auto& path : files.wheels) {
    const auto wheel = open_at(AT_FDCWD, path, k_open_source);
    if (!wheel) return key.refuse(wheel.error().what);
    key.add("wheel", std::string_view(path));
    key.add_file(path, wheel->get());
  }
  add_interpreter(key, item, order);
  key.add("environment", item.environment);
  for (const auto& directory : wheel_directories(item, order, files)) key.add_directory(directory);
  add_settings(key, item, order.venv.installer);
}

// An environment's files name the path where it was, which is replaced.
void add_environment(ShareKey& key, const VenvItem& item, int fd, const ShareRules& rules) {
  key.add("source", std::string_view(item.source));
  key.add("real", std::string_view(resolved(item.source)));
  const EntryFilter filter(0, {}, {});
  SourceTrust trust(rules.order.cache_never);
  if (key.is_refused() || rules.way == ShareWay::bytes) return key.add_tree(item.source, {});
  key.add_tree(item.source,
               look_at_tree(item.source, fd,
                            {filter, LinksOut::kept, rules.order.threads, trust, rules.copy_stop}));
}

const char* kind_of(VenvSource source) {
  switch (source) {
    case VenvSource::archive:
      return "archive of a venv";
    case VenvSource::requirements:
      return "requirements";
    case VenvSource::directory:
      break;
  }
  return "venv";
}

}  // namespace

SourceIdentity identify_venv(const VenvItem& item, VenvSource source, int fd,
                             const ShareRules& rules) {
  ShareKey key(rules, kind_of(source), last_part(item.destination));
  key.add("build", static_cast<unsigned>(rules.order.venv.build));
  switch (source) {
    case VenvSource::archive:
      key.add_file(item.source, fd);
      break;
    case VenvSource::requirements:
      add_requirements(key, item, rules.order);
      break;
    case VenvSource::directory:
      add_environment(key, item, fd, rules);
      break;
  }
  return key.identity();
}

}  // namespace nodestage
