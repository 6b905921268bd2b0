#include "common/request/request_warnings.hpp"

#include <sys/stat.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "common/os/ask_apart.hpp"
#include "common/request/destinations.hpp"
#include "common/request/source_check.hpp"
#include "common/request/target_check.hpp"
#include "common/request/target_writers.hpp"
#include "common/request/venv_environment.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/name_pattern.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

std::optional<mode_t> type_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return info.st_mode & S_IFMT;
}

std::string missing(const std::string& path) {
  return path + " does not exist yet; it must exist when the job starts";
}

// Warns about a source with newest=; "" when there is nothing to say.
std::string about_newest(const DatasetItem& item, std::optional<mode_t> type, Start start) {
  if (type == S_IFREG)
    return item.source + " is a file, and newest= chooses among the entries of a directory: name " +
           "its directory, or remove newest=";
  if (start == Start::later && !item.optional && type == S_IFDIR && is_empty_directory(item.source))
    return item.source + " is empty; for newest=, something must be in it when the job starts " +
           "(with the key optional, the job starts without it)";
  return {};
}

// Two options in one word have a path like this.
std::string about_option_in(const std::string& path) {
  const std::size_t at = path.find(" --");
  if (at == std::string::npos) return {};
  return "the path " + path + " has '" + path.substr(at + 1) +
         "' in it: if that is an option of its own, write it outside of the quotes";
}

// Names of a job's directory have no patterns, and targets often do.
std::string about_order(const OutputItem& item) {
  if (!names_any(item.source, "jAaurxNn") || names_any(item.target, "jAaurxNn")) return {};
  return "the source '" + item.source +
         "' is a name in $SLURM_TMPDIR, where % means itself; if it " +
         "is the target, write the source first: --stage-out=" + last_part(item.target) + ":" +
         item.source;
}

// "" when there is nothing to say.
std::string about_dataset(const DatasetItem& item, Start start) {
  const std::string name = without_slashes(item.source);
  const auto type = type_of(name);
  if (item.newest != 0) {
    if (std::string warning = about_newest(item, type, start); !warning.empty()) return warning;
  }
  if (type == S_IFDIR && !archive_suffix(name).empty())
    return name + " is named like an archive but is a directory: it is copied as it is, to " +
           "$SLURM_TMPDIR/" + destination_of(item);
  const bool is_archive = item.extract == Extract::yes || !archive_suffix(name).empty();
  if (type != S_IFDIR && item.extract != Extract::no && is_archive &&
      !archive_suffix(item.destination).empty())
    return "$SLURM_TMPDIR/" + item.destination + " becomes a directory, with what is in " + name +
           "; extract=no copies the archive as it is";
  if (start == Start::now || item.optional) return {};
  const std::string part = missing_part(item.source);
  if (part.empty()) return part;
  const std::string other = about_option_in(part);
  return other.empty() ? missing(part) : other;
}

// Warns about the directory of wheels, which pip passes over where it does not exist.
std::string about_wheels(const std::string& path, Start start) {
  const auto type = type_of(path);
  if (type && type != S_IFDIR)
    return "wheels=" + path + " is not a directory: name the one that the wheels are in";
  if (type || source_exists(path)) return {};
  return start == Start::later ? missing(path) : "wheels=" + path + " does not exist";
}

// Warns about one that will be looked up and was not found here.
std::string about_python(const VenvItem& venv) {
  if (!is_program_name(venv.python) || !venv.modules.empty()) return {};
  return "python=" + venv.python + ": your PATH has no such program here, and the node looks for " +
         "it in the same PATH: write python=/PATH/TO/" + venv.python + ", or add module=NAME";
}

void add_about_venv(std::vector<std::string>& warnings, const VenvItem& venv, Start start) {
  const bool is_directory = type_of(venv.source) == S_IFDIR;
  if (start == Start::later && !venv.optional && !source_exists(venv.source))
    warnings.push_back(missing(venv.source));
  if (is_directory) return;  // nothing is built
  for (std::string text :
       {venv.wheels.empty() ? "" : about_wheels(venv.wheels, start), about_python(venv)}) {
    if (!text.empty()) warnings.push_back(std::move(text));
  }
}

std::vector<std::string> warnings_of(const StageRequest& request, Start start) {
  std::vector<std::string> warnings;
  for (const DatasetItem& item : request.datasets) warnings.push_back(about_dataset(item, start));
  if (request.venv) add_about_venv(warnings, *request.venv, start);
  for (const OutputItem& item : request.outputs) {
    warnings.push_back(about_target(item));
    warnings.push_back(about_order(item));
    warnings.push_back(about_option_in(item.target));
  }
  for (std::string& warning : outputs_of_one_target(request.outputs))
    warnings.push_back(std::move(warning));
  std::erase(warnings, "");
  for (std::string& warning : warnings) warning = printable(warning);
  return warnings;
}

std::uint64_t least_bytes(const StageRequest& request) {
  std::uint64_t bytes = 0;
  for (const DatasetItem& item : request.datasets) {
    struct stat info {};
    const bool is_filtered = !item.include.empty() || !item.exclude.empty() || item.optional;
    if (is_filtered || ::stat(item.source.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    bytes += static_cast<std::uint64_t>(info.st_size);
  }
  return bytes;
}

// Encodes for a pipe: the number, and then a line for each warning.
std::string encode(const RequestLook& look) {
  std::string text = std::to_string(look.least_bytes) + "\n";
  for (const std::string& warning : look.warnings) text += warning + "\n";
  return text;
}

std::optional<RequestLook> decode(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line)) return {};
  RequestLook look{{}, parse_number<std::uint64_t>(line).value_or(0)};
  while (std::getline(lines, line)) look.warnings.push_back(line);
  return look;
}

}  // namespace

RequestLook look_at_request(const StageRequest& request, Start start) {
  return {warnings_of(request, start), least_bytes(request)};
}

RequestLook look_in_time(const StageRequest& request, Start start) {
  const auto answer =
      ask_apart(k_ask_patience, [&] { return encode(look_at_request(request, start)); });
  const auto look = answer ? decode(*answer) : std::nullopt;
  if (look) return *look;
  return {{"a file system with a source or target does not answer on this host, so they were not "
           "looked at"},
          0};
}

}  // namespace nodestage
