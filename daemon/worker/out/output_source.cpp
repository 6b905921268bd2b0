#include "daemon/worker/out/output_source.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "common/os/directory_stream.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/deliver/source_fault.hpp"

namespace nodestage {
namespace {

Error named(const std::string& path, int code) {
  if (code == EXDEV) return Error{code, path + ": a link there leads out of the job directory"};
  if (code == ENOTCONN) {
    const Error fault = source_fault(system_error(path, code), {});
    return Error{fault.code, path + ": " + fault.what};
  }
  return system_error(path, code);
}

bool matches(const std::string& pattern, const std::string& name) {
  return !name.starts_with(".nodestage") &&
         ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

// Empty if nothing is there, or a link that leads out: no match.
Result<std::optional<JobPlace>> place_at(const JobTree& job, const std::string& path,
                                         LastLink last) {
  auto place = job.find({path, last});
  if (!place && place.error().code == ELOOP) return std::optional<JobPlace>();
  if (!place) return named(path, place.error().code);
  if (place->kind != JobPlace::Kind::there) return std::optional<JobPlace>();
  return std::optional(std::move(*place));
}

Result<std::vector<std::string>> matching_names(const JobTree& job, const std::string& directory,
                                                const std::string& pattern) {
  std::vector<std::string> names;
  TRY_ASSIGN(const auto place, place_at(job, directory, LastLink::follow));
  if (!place || !S_ISDIR(place->info.st_mode)) return names;
  auto stream = DirectoryStream::at(place->parent.get(), place->entry().path);
  while (const auto next = stream.next()) {
    if (std::string name(*next); matches(pattern, name)) names.push_back(std::move(name));
  }
  if (stream.code() != 0) return named(directory, stream.code());
  return names;
}

// Adds what `pattern` (without slashes at its ends) matches below `directory`.
Status expand(const JobTree& job, const std::string& directory, const std::string& pattern,
              std::vector<std::string>& found) {
  const std::size_t slash = pattern.find('/');
  const std::string component = pattern.substr(0, slash);
  std::vector<std::string> names = {component};
  if (component.find_first_of("*?[\\") != std::string::npos) {
    TRY_ASSIGN(names, matching_names(job, directory, component));
  }
  const std::size_t next = pattern.find_first_not_of('/', slash);
  for (const std::string& name : names) {
    const std::string path = joined_path(directory, name);
    if (slash != std::string::npos) {
      TRY(expand(job, path, pattern.substr(next), found));
      continue;
    }
    // A fault: it may exist, so it is not missing, but cannot be delivered.
    TRY_ASSIGN(const auto place, place_at(job, path, LastLink::keep));
    if (place) found.push_back(path);
  }
  return {};
}

}  // namespace

Result<OutputSource> find_output_source(const JobTree& job, const std::string& source) {
  const std::string path = source.substr(0, source.find_last_not_of('/') + 1);
  OutputSource result;
  const auto literal = job.find({path});
  if (!literal) return named(path, literal.error().code);
  if (literal->kind == JobPlace::Kind::outside) return named(path, EXDEV);
  if (literal->kind == JobPlace::Kind::there) {
    result.kind =
        S_ISDIR(literal->info.st_mode) ? OutputSource::Kind::directory : OutputSource::Kind::file;
    result.paths = {path};
    return result;
  }
  if (!is_glob(path)) return result;
  TRY(expand(job, "", path, result.paths));
  std::sort(result.paths.begin(), result.paths.end());
  if (!result.paths.empty()) result.kind = OutputSource::Kind::matches;
  return result;
}

Result<JobPlace> place_of(const JobTree& job, const OutputSource& source, const std::string& path) {
  const bool is_match = source.kind == OutputSource::Kind::matches;
  auto place = job.find({path, is_match ? LastLink::keep : LastLink::follow});
  if (!place) return named(path, place.error().code);
  if (place->kind == JobPlace::Kind::there) return place;
  return named(path, place->kind == JobPlace::Kind::outside ? EXDEV : ENOENT);
}

}  // namespace nodestage
