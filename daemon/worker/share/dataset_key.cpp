#include "daemon/worker/share/dataset_key.hpp"

#include <fcntl.h>

#include "common/os/file.hpp"
#include "common/request/destinations.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/encodings.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/piece/recognise.hpp"
#include "daemon/worker/venv/builder.hpp"
#include "daemon/worker/venv/requirements.hpp"
#include "daemon/worker/venv/venv_build.hpp"
#include "daemon/worker/venv/venv_interpreter.hpp"

namespace nodestage {
namespace {

TreeLook look_by_rules(const std::string& path, int fd, const EntryFilter& filter, LinksOut links,
                       const ShareRules& rules) {
  SourceTrust trust(rules.order.cache_never);
  return look_at_tree(path, fd, {filter, links, rules.order.threads, trust, rules.copy_stop});
}

}  // namespace

// A name with an archive's suffix is that of an archive, or a fault.
std::string dataset_name(const DatasetItem& item, const std::string& source) {
  if (!item.destination.empty()) return last_part(item.destination);
  return default_name(source, item);
}

ShareKey dataset_key(const DatasetItem& item, bool is_group, const std::string& first,
                     const ShareRules& rules) {
  ShareKey key(rules, is_group ? "datasets" : "dataset", dataset_name(item, first));
  if (is_group && !item.join && item.destination.empty())
    key.refuse("several files are kept only below one destination: --stage-dataset=SOURCE:DEST");
  for (const auto& row : Option<DatasetItem>::keys)
    if (row.tree == TreeEffect::changes || (row.tree == TreeEffect::adds && is_given(item, row)))
      with_value(item, row, [&](const auto& value) { key.add(row.name, value); });
  return key;
}

TreeLook dataset_tree(const DatasetItem& item, const std::string& path, int fd,
                      const ShareRules& rules) {
  return look_by_rules(path, fd, EntryFilter(0, {}, item.exclude), links_out(item), rules);
}

std::uint64_t file_mark(const DatasetItem& item, const std::string& path, int fd,
                        const ShareRules& rules) {
  ShareKey key = dataset_key(item, false, path, rules);
  add_source(key, path, fd);
  const SourceIdentity identity = key.identity();
  return identity.why_not.empty() ? fnv1a(identity.key) : 0;
}

std::uint64_t directory_mark(const DatasetItem& item, int fd) {
  for (const auto& row : Option<DatasetItem>::keys)
    if (changes_tree(row.tree) && is_given(item, row)) return 0;
  const auto look = look_at(fd);
  if (!look) return 0;
  return fnv1a(std::to_string(look->device) + " " + std::to_string(look->file_system) + " " +
               std::to_string(look->inode));
}

// The name matters in a group, and says of a single file whether it claims to be an archive.
void add_source(ShareKey& key, const std::string& path, int fd) {
  key.add("source", std::string_view(last_part(path)));
  key.add_copied_file(path, fd);
}

void add_source(ShareKey& key, const std::string& path, const TreeLook& tree) {
  key.add("source", std::string_view(last_part(path)));
  key.add_tree(path, tree);
}

namespace {

constexpr std::size_t k_max_key_text = 4 * 1024 * 1024;

// By its content. Returns false if it does not exist.
bool add_lines(ShareKey& key, const std::string& path) {
  const auto file = open_at(AT_FDCWD, path, k_open_source);
  if (!file) return false;
  const auto text = read_all(file->get(), k_max_key_text);
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
    if (path.starts_with('/') && add_lines(key, path)) key.add("settings", std::string_view(path));
  }
}

// Directories that a variable lists, separated by blanks (pip) or commas (uv).
void add_listed(std::vector<std::string>& directories, std::string_view list) {
  while (!list.empty()) {
    const std::string_view one = take_part(list, " ,");
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
    return key.refuse("this node has no " + wanted_python(item) + " in the PATH of the submission");
  key.add_program("python", python);
}

void add_requirements(ShareKey& key, const VenvItem& item, const IdentifyOrder& order) {
  key.add("installer", order.venv.installer == VenvInstaller::uv ? 1U : 0U);
  if (order.venv.installer == VenvInstaller::uv) key.add_program("uv", order.venv.uv);
  const RequirementFiles files = files_of_requirements(item.source);
  if (!files.unknown.empty()) key.refuse(files.unknown);
  key.add("texts", files.texts.size());
  for (const auto& path : files.texts) {
    if (!key.is_refused() && !add_lines(key, path)) key.refuse(shown(path) + " cannot be read");
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
  const EntryFilter filter(0, {}, Unpacking::of_venv(item.source).exclude);
  if (key.is_refused() || rules.way == ShareIdentity::bytes) return key.add_tree(item.source, {});
  key.add_tree(item.source, look_by_rules(item.source, fd, filter, LinksOut::kept, rules));
  const auto interpreter = interpreter_of_directory(item);
  if (!interpreter || key.is_refused()) return;
  key.add_program("interpreter", interpreter->program);
  key.add_directory(interpreter->prefix + "/lib");  // its libraries
  const std::string library = interpreter->library();
  const auto directory = open_at(AT_FDCWD, library, O_PATH | O_DIRECTORY);
  if (!directory) return key.refuse(directory.error().what);
  // Python writes its compiled files there, now and then.
  std::vector<std::string> ignored = interpreter->unused();
  ignored.emplace_back("__pycache__");
  const EntryFilter parts(0, {}, ignored);
  key.add_tree(library, look_by_rules(library, directory->get(), parts, LinksOut::kept, rules));
}

}  // namespace

// As the key has it.
static const char* kind_of(VenvSource source) {
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
