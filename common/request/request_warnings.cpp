#include "common/request/request_warnings.hpp"

#include <sys/stat.h>

#include <optional>

#include "common/request/destinations.hpp"
#include "common/request/source_check.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

std::optional<mode_t> type_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return info.st_mode & S_IFMT;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string missing(const std::string& path) {
  return path + " does not exist yet; it must exist when the job starts";
}

// Of a source with newest=; "" when there is nothing to say.
std::string about_newest(const DatasetItem& item, std::optional<mode_t> type, Start start) {
  if (type == S_IFREG)
    return item.source + " is a file, and newest= chooses among the entries of a directory: name " +
           "its directory, or remove newest=";
  if (start == Start::later && !item.optional && type == S_IFDIR && is_empty_directory(item.source))
    return item.source + " is empty; for newest=, something must be in it when the job starts " +
           "(with the key optional, the job starts without it)";
  return {};
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
  if (type != S_IFDIR && item.extract == Extract::automatic &&
      !archive_suffix(item.destination).empty() && !archive_suffix(name).empty())
    return "$SLURM_TMPDIR/" + item.destination + " becomes a directory, with what is in " + name +
           "; extract=no copies the archive as it is";
  if (start == Start::now || item.optional) return {};
  const std::string part = missing_part(item.source);
  return part.empty() ? part : missing(part);
}

void add_missing_of_venv(std::vector<std::string>& warnings, const VenvItem& venv) {
  if (venv.optional) return;
  for (const std::string& path : {venv.source, venv.wheels}) {
    if (!path.empty() && !source_exists(path)) warnings.push_back(missing(path));
  }
}

// Where an output's files go: a target that ends in '/' receives the source under its own name. Not
// for globs, whose matches keep their names.
std::string place_of(const OutputItem& item) {
  if (!item.target.ends_with('/')) return item.target;
  return item.target + item.source.substr(item.source.rfind('/') + 1);
}

bool can_both_happen(When one, When other) {
  return one == When::always || other == When::always || one == other;
}

void add_shared_targets(std::vector<std::string>& warnings,
                        const std::vector<OutputItem>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const bool are_told_apart = is_glob(outputs[k].source) || is_glob(outputs[i].source);
      if (are_told_apart || place_of(outputs[k]) != place_of(outputs[i]) ||
          !can_both_happen(outputs[k].when, outputs[i].when))
        continue;
      warnings.push_back("'" + outputs[k].source + "' and '" + outputs[i].source +
                         "' are both copied to " + place_of(outputs[i]) +
                         ": of two files with the same name, only one remains");
    }
  }
}

}  // namespace

std::vector<std::string> request_warnings(const StageRequest& request, Start start) {
  std::vector<std::string> warnings;
  for (const DatasetItem& item : request.datasets) {
    if (std::string warning = about_dataset(item, start); !warning.empty())
      warnings.push_back(std::move(warning));
  }
  if (request.venv && start == Start::later) add_missing_of_venv(warnings, *request.venv);
  add_shared_targets(warnings, request.outputs);
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

}  // namespace nodestage
