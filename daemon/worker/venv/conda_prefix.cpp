#include "daemon/worker/venv/conda_prefix.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/venv/venv_python.hpp"
#include "daemon/worker/venv/venv_relocation.hpp"

namespace nodestage {
namespace {

using Json = nlohmann::json;

constexpr std::size_t k_max_record = 32 * 1024 * 1024;
constexpr std::size_t k_max_looked_at = 256 * 1024 * 1024;
constexpr const char* k_unset = "***unset***";  // the value of a variable that conda unsets

// Throws the library's exceptions for what no record contains.
void add_files(const Json& record, PrefixFiles& files) {
  static_cast<void>(record.at("name"));
  const auto names = record.find("files");  // conda wrote only these once
  const bool has_files = names != record.end() && !names->empty();
  if (!has_files && !record.contains("paths_data")) return;
  for (const Json& entry : record.at("paths_data").at("paths")) {
    const auto placeholder = entry.find("prefix_placeholder");
    if (placeholder == entry.end() || placeholder->is_null()) continue;
    const auto mode = entry.find("file_mode");
    const bool is_binary = mode != entry.end() && *mode == "binary";
    files[entry.at("_path").get<std::string>()] = {
        is_binary ? PrefixFile::Mode::binary : PrefixFile::Mode::text,
        placeholder->get_ref<const std::string&>().size()};
  }
}

std::vector<std::string> names_with(int dir_fd, const std::string& directory,
                                    std::string_view suffix) {
  auto names = names_in(dir_fd, directory);
  std::erase_if(names, [&](const std::string& name) { return !name.ends_with(suffix); });
  return names;
}

// Returns the shell's lines that set these variables. A damaged file sets none.
std::string lines_of_variables(const std::string& text, std::string_view member) {
  std::string lines;
  try {
    const Json json = Json::parse(text);
    for (const auto& [name, value] : (member.empty() ? json : json.at(member)).items()) {
      if (!is_variable_name(name) || !value.is_string()) continue;
      const std::string& set = value.get_ref<const std::string&>();
      lines +=
          set == k_unset ? "unset " + name + "\n" : "export " + name + "=" + shell_word(set) + "\n";
    }
  } catch (const Json::exception&) {  // thrown by the library
    return {};
  }
  return lines;
}

}  // namespace

Result<PrefixFiles> prefix_files(int dir_fd, const std::string& source, const Meter& meter) {
  static constexpr const char* k_directory = "conda-meta";
  const auto names = names_with(dir_fd, k_directory, ".json");
  if (names.empty()) {
    return fault(EINVAL,
                 shown(source) +
                     "/conda-meta: has no record of a package, so it is not known what "
                     "must be changed in this conda environment at another path",
                 "Make an archive of it with conda-pack, and stage that");
  }
  PrefixFiles files;
  for (const auto& name : names) {
    TRY(meter.check());
    const std::string path = std::string(k_directory) + "/" + name;
    try {
      add_files(Json::parse(text_in(dir_fd, path, k_max_record)), files);
    } catch (const Json::exception&) {  // thrown by the library
      return fault(EINVAL,
                   shown(source) + "/" + shown(path) +
                       ": is no record of a conda package with its paths: it is damaged, not "
                       "readable, older than conda 4.4, or larger than " +
                       human_bytes(k_max_record),
                   "Install that package again (conda install --force-reinstall), or make the "
                   "environment again");
    }
  }
  return files;
}

Status check_room(int dir_fd, const PrefixFiles& files, const VenvMove& move) {
  for (const auto& [path, file] : files) {
    if (file.mode == PrefixFile::Mode::text || move.to().size() <= file.placeholder) continue;
    const std::string data = text_in(dir_fd, path, k_max_looked_at);
    unsigned left = 0;
    static_cast<void>(string_patches(data, move, file.placeholder, left));
    if (left > 0) return no_room(path, data, move);
  }
  return {};
}

Error no_room(const std::string& path, std::string_view data, const VenvMove& move) {
  const auto named = std::find_if(
      move.from().begin(), move.from().end(),
      [&](const std::string& place) { return data.find(place) != std::string_view::npos; });
  const std::string& from = named == move.from().end() ? move.from().front() : *named;
  return fault(
      ENAMETOOLONG,
      "the conda environment's file " + shown(path) + ": contains the path " + shown(from) +
          ", and has no room for the new one, " + shown(move.to()),
      "Choose a shorter destination: --stage-venv=SOURCE:DEST. Without the key shared, the "
      "path is shorter, too");
}

namespace {

// That of conda-pack does nothing where CONDA_PREFIX is set already, and a link leads to that of
// another installation.
bool has_own_activation(int dir_fd, int bin_fd) {
  if (!has_entry(bin_fd, "activate")) return false;
  return link_text(bin_fd, "activate").empty() &&
         text_in(dir_fd, "bin/activate").find("_conda_pack_activate") == std::string::npos;
}

}  // namespace

Result<bool> write_activation(int dir_fd, const std::string& path) {
  std::string special;
  for (const auto& name : names_with(dir_fd, "etc/conda/env_vars.d", ".json"))
    special += lines_of_variables(text_in(dir_fd, "etc/conda/env_vars.d/" + name), "");
  special += lines_of_variables(text_in(dir_fd, "conda-meta/state"), "env_vars");
  for (const auto& name : names_with(dir_fd, "etc/conda/activate.d", ".sh"))
    special += ". " + shell_word(path + "/etc/conda/activate.d/" + name) + "\n";
  const std::string word = shell_word(path);
  const std::string text =
      "# Made by nodestage. Activates this environment in a shell that sources it.\n"
      "export CONDA_PREFIX=" +
      word + " CONDA_DEFAULT_ENV=" + word + " VIRTUAL_ENV=" + word + "\nexport PATH=" + word +
      "/bin:\"$PATH\"\nunset PYTHONHOME\n" + special;
  const auto bin = open_directory_at(dir_fd, "bin");
  if (!bin || has_own_activation(dir_fd, bin->get())) return !special.empty();
  const WritableDirectory writable(bin->get());
  if (::unlinkat(bin->get(), "activate", 0) != 0 && errno != ENOENT)
    return system_error("bin/activate");
  TRY_ASSIGN(const Fd file, open_at(bin->get(), "activate", O_WRONLY | O_CREAT | O_EXCL, 0644));
  TRY(write_all(file.get(), std::string_view(text)));
  return !special.empty();
}

}  // namespace nodestage
