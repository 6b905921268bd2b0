#include "daemon/worker/out/output_source.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/deliver/source_fault.hpp"

namespace nodestage {
namespace {

bool is_absence(int code) { return code == ENOENT || code == ENOTDIR; }

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

Result<std::vector<std::string>> matching_names(int directory_fd, const std::string& directory,
                                                const std::string& pattern) {
  std::vector<std::string> names;
  auto fd = open_beneath(directory_fd, directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY);
  if (!fd) {
    // An earlier component matched no directory, or a link that leads out: no match.
    const int code = fd.error().code;
    if (is_absence(code) || code == ELOOP || code == EXDEV) return names;
    return named(directory, code);
  }
  DirectoryStream stream(std::move(*fd));
  while (const auto next = stream.next()) {
    if (std::string name(*next); matches(pattern, name)) names.push_back(std::move(name));
  }
  if (stream.code() != 0) return named(directory, stream.code());
  return names;
}

std::string joined(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

// Adds what `pattern` (without slashes at its ends) matches below `directory`.
Status expand(int directory_fd, const std::string& directory, const std::string& pattern,
              std::vector<std::string>& found) {
  const std::size_t slash = pattern.find('/');
  const std::string component = pattern.substr(0, slash);
  std::vector<std::string> names = {component};
  if (component.find_first_of("*?[\\") != std::string::npos) {
    TRY_ASSIGN(names, matching_names(directory_fd, directory, component));
  }
  const std::size_t next = pattern.find_first_not_of('/', slash);
  for (const std::string& name : names) {
    const std::string path = joined(directory, name);
    if (slash != std::string::npos) {
      TRY(expand(directory_fd, path, pattern.substr(next), found));
    } else if (const auto entry = open_beneath(directory_fd, path, O_PATH | O_NOFOLLOW)) {
      found.push_back(path);
    } else if (const int code = entry.error().code;
               !is_absence(code) && code != ELOOP && code != EXDEV) {
      return named(path, code);  // it may exist: not missing, but impossible to deliver
    }
  }
  return {};
}

}  // namespace

Result<OutputSource> find_output_source(int directory_fd, const std::string& source) {
  const std::string path = source.substr(0, source.find_last_not_of('/') + 1);
  OutputSource result;
  const auto literal = open_beneath(directory_fd, path, O_PATH);
  if (literal) {
    struct stat info {};
    if (::fstat(literal->get(), &info) != 0) return named(path, errno);
    result.kind = S_ISDIR(info.st_mode) ? OutputSource::Kind::directory : OutputSource::Kind::file;
    result.paths = {path};
    return result;
  }
  if (!is_absence(literal.error().code)) return named(path, literal.error().code);
  if (!is_glob(path)) return result;
  TRY(expand(directory_fd, "", path, result.paths));
  std::sort(result.paths.begin(), result.paths.end());
  if (!result.paths.empty()) result.kind = OutputSource::Kind::matches;
  return result;
}

}  // namespace nodestage
