#include "common/request/request_warnings.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/request/destinations.hpp"
#include "common/request/job_environment.hpp"
#include "common/request/source_names.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/part_names.hpp"
#include "common/text/path_names.hpp"
#include "common/text/squashfs_image.hpp"

namespace nodestage {
namespace {

// Also true if it cannot be determined.
bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

// What is below a "**" is not searched.
bool has_match(const std::string& pattern) {
  if (!is_glob(pattern)) return false;
  const std::string start = pattern.substr(0, start_of_any_depth(pattern));
  glob_t found{};
  const int result = ::glob(start.c_str(), GLOB_NOSORT, nullptr, &found);
  ::globfree(&found);
  return result != GLOB_NOMATCH;
}

}  // namespace

std::string missing_part(const std::string& source) {
  if (exists(source)) return {};
  const auto names = brace_texts(source);
  if (!names) return source;
  for (const std::string& name : *names)
    if (!exists(name) && !has_match(name)) return name;
  return {};
}

bool source_exists(const std::string& source) { return missing_part(source).empty(); }

namespace {

bool is_empty_directory(const std::string& path) {
  std::error_code fault;
  const std::filesystem::directory_iterator first(path, fault);
  return !fault && first == std::filesystem::directory_iterator();
}

struct Found {
  std::string path;
  bool is_directory = false;
};

// The path that is written, or the directory before its first pattern.
struct Known {
  std::string path;
  bool is_whole = true;
};

Known known_path(const OutputItem& item) {
  std::string path = item.target;
  if (item.pack && !path.ends_with('/') && archive_suffix(path).empty()) path += ".tar.zst";
  const std::size_t pattern = path.find('%');
  if (pattern != std::string::npos) path.resize(path.rfind('/', pattern) + 1);
  return {without_slashes(path), pattern == std::string::npos};
}

// Returns the last of `path` that exists; empty if its file system gives no clear answer.
std::optional<Found> last_that_exists(std::string path) {
  for (;;) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) return Found{path, S_ISDIR(info.st_mode)};
    const bool is_clear = errno == ENOENT || errno == ENOTDIR || errno == EACCES;
    if (!is_clear || path == "/") return {};
    path = parent_of(path);
  }
}

// Returns "" when new names can be made in it, or when that is not known.
std::string why_not_writable(const std::string& directory) {
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return "";
  if (errno == EROFS) return directory + " is on a file system that is read-only on this host";
  return errno == EACCES ? "you may not write to " + directory : "";
}

// Whether the target must be a directory. A source's name does not say what the source will be.
bool needs_directory(const OutputItem& item) {
  return item.target.ends_with('/') || (is_glob(item.source) && !becomes_archive(item));
}

// Says what is at the target already.
std::string about_existing(const OutputItem& item, const Found& found) {
  if (becomes_archive(item) && found.is_directory && !item.target.ends_with('/'))
    return "it is a directory, which no archive can replace; to put the archive into it, write '/' "
           "at its end";
  if (!found.is_directory && needs_directory(item))
    return "it is a file, which only a file can replace, and no directory";
  return why_not_writable(found.is_directory ? found.path : parent_of(found.path));
}

std::string about_missing(const Found& found) {
  if (!found.is_directory) return found.path + " is a file";
  return why_not_writable(found.path);
}

}  // namespace

std::string about_target(const OutputItem& item) {
  const Known known = known_path(item);
  const auto found = last_that_exists(known.path);
  if (!found) return "";
  const bool is_there = known.is_whole && found->path == known.path;
  const std::string why = is_there ? about_existing(item, *found) : about_missing(*found);
  if (why.empty()) return "";
  return "the target " + item.target + " of '" + item.source +
         (is_there ? "' cannot be written: " : "' cannot be made: ") + why;
}

namespace {

constexpr const char* k_loss = ": of two files with the same name, only one remains";

// Where an output's files go: a target that ends in '/' receives the source under its own name. Not
// for globs, whose matches keep their names.
std::string place_of(const OutputItem& item) {
  if (!item.target.ends_with('/')) return item.target;
  return item.target + item.source.substr(item.source.rfind('/') + 1);
}

bool can_both_happen(When one, When other) {
  return one == When::always || other == When::always || one == other;
}

bool has_one_place(const OutputItem& one, const OutputItem& other) {
  return place_of(one) == place_of(other) && can_both_happen(one.when, other.when);
}

// Warns of two outputs of one job.
std::vector<std::string> outputs_of_one_target(const std::vector<OutputItem>& outputs) {
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const bool have_other_names = is_glob(outputs[k].source) || is_glob(outputs[i].source);
      if (have_other_names || !has_one_place(outputs[k], outputs[i])) continue;
      warnings.push_back("'" + outputs[k].source + "' and '" + outputs[i].source +
                         "' are both copied to " + place_of(outputs[i]) + k_loss);
    }
  }
  return warnings;
}

}  // namespace

std::vector<std::string> tasks_of_one_target(const std::vector<OutputItem>& outputs) {
  std::vector<std::string> warnings;
  for (const OutputItem& item : outputs) {
    if (names_any(item.target, "aj")) continue;
    warnings.push_back("every task of the array copies '" + item.source + "' to " + place_of(item) +
                       k_loss + "; put %a (the task's index) or %j (its job ID) into the target");
  }
  return warnings;
}

std::vector<std::string> components_of_one_target(const std::vector<OutputItem>& outputs,
                                                  const std::vector<OutputItem>& earlier) {
  std::vector<std::string> warnings;
  for (const OutputItem& item : outputs) {
    const auto has_its_place = [&item](const OutputItem& other) {
      return has_one_place(item, other);
    };
    if (names_any(item.target, "Aj") || std::none_of(earlier.begin(), earlier.end(), has_its_place))
      continue;
    warnings.push_back("several components of the job copy results to " + place_of(item) + k_loss +
                       "; put %j (the component's job ID) into the target");
  }
  return warnings;
}

namespace {

constexpr std::size_t k_most_compared = 4096;

std::optional<mode_t> type_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return info.st_mode & S_IFMT;
}

std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

// Returns " (did you mean 'data.tar'?)" for the first part of the path that does not exist, if
// another name there is near. One of the same series (shard-1.tar, shard-2.tar) is not.
std::string did_you_mean_entry(const std::string& path) {
  const auto above = last_that_exists(path);
  if (!above || !above->is_directory || is_glob(path) || above->path.size() >= path.size())
    return {};
  const std::size_t begin = above->path == "/" ? 1 : above->path.size() + 1;
  const std::string wanted = path.substr(begin, path.find('/', begin) - begin);
  std::vector<std::string> names;
  DirectoryStream entries = DirectoryStream::at(AT_FDCWD, above->path);
  std::size_t seen = 0;
  for (auto name = entries.next(); name && ++seen < k_most_compared; name = entries.next())
    if (without_digits(std::string(*name)) != without_digits(wanted)) names.emplace_back(*name);
  return did_you_mean(wanted, {names.begin(), names.end()});
}

std::string missing(const std::string& path) {
  return path + " does not exist yet" + did_you_mean_entry(path) +
         "; it must exist when the job starts";
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

// The matches of a source on this host, as far as a glance shows them; none of what is below a
// "**".
std::vector<std::string> matches_here(const std::string& pattern) {
  if (exists(pattern)) return {pattern};
  std::vector<std::string> matches;
  const auto names = brace_texts(pattern);
  if (!names || start_of_any_depth(pattern) != std::string::npos) return matches;
  for (const std::string& name : *names) {
    glob_t found{};
    if (::glob(name.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
      matches.insert(matches.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
  }
  return matches;
}

bool is_part_of_archive(const std::string& path) {
  if (!whole_archive(path).empty()) return true;
  const std::string zip = whole_zip(path);
  return !zip.empty() && exists(path.substr(0, path.rfind('/') + 1) + zip);
}

// Whether the source is a part of an archive by its text, or a glob that is written for some: a
// directory can have too many names to look at all of them.
bool may_name_parts(const std::string& source) {
  const std::string name = last_part(source);
  if (!is_glob(name)) return !whole_archive(name).empty() || !whole_zip(name).empty();
  for (std::size_t end = 1; end < name.size(); ++end) {
    const std::string rest = name.substr(end);
    if (rest.starts_with(".z") && rest.find_first_of("0123456789*?[{") == 2) return true;
    if (!archive_suffix(name.substr(0, end)).empty() && (is_glob(rest) || is_part_name(name)))
      return true;
  }
  return false;
}

// A part of a file that is to be joined and is missing now, or matches of several files.
std::string about_joined(const DatasetItem& item) {
  auto matches = matches_here(item.source);
  if (matches.empty() || item.optional) return {};
  std::sort(matches.begin(), matches.end());
  const auto parts = order_parts(matches, item.source);
  if (parts) return {};
  const bool is_missing = parts.error().code == ENOENT;
  return parts.error().what + (is_missing ? "; it must be there when the job starts" : "");
}

// Parts of an archive that are not joined, or of which one is missing now. What exclude= and
// newest= leave of the matches is not known here.
std::string about_parts(const DatasetItem& item, Start start) {
  if (start == Start::now || !item.exclude.empty() || item.newest != 0) return {};
  if (item.join) return about_joined(item);
  if (item.extract != Extract::automatic || !may_name_parts(item.source)) return {};
  const auto matches = matches_here(item.source);
  const auto first = std::min_element(matches.begin(), matches.end());
  if (first == matches.end() || !is_part_of_archive(*first) || type_of(*first) != S_IFREG)
    return {};
  const std::string option = how_to_join(*first);
  if (option.empty()) return {};
  return *first + " is one part of an archive in several files: stage the parts as one file, " +
         "with " + option;
}

// Warns about what cannot be mounted as it is now; "" when there is nothing to say.
std::string about_image(const std::string& path, std::optional<mode_t> type) {
  if (type == S_IFDIR)
    return path +
           " is a directory, and only an image can be mounted: make one with nodestage pack " +
           "--image NEW.sqsh " + shell_word(path);
  struct stat info {};
  const auto file = open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
  if (type != S_IFREG || !file || ::fstat(file->get(), &info) != 0) return {};
  std::string start(k_image_start_bytes, '\0');
  const auto bytes = pread_all(file->get(), std::as_writable_bytes(std::span(start)), 0);
  if (!bytes) return {};
  start.resize(*bytes);
  const Status checked = check_image(path, start, static_cast<std::uint64_t>(info.st_size));
  return checked ? "" : checked.error().what + ". " + checked.error().advice;
}

// "" when there is nothing to say.
std::string about_dataset(const DatasetItem& item, Start start) {
  const std::string name = without_slashes(item.source);
  const auto type = type_of(name);
  if (std::string warning = about_parts(item, start); !warning.empty()) return warning;
  if (item.newest != 0) {
    if (std::string warning = about_newest(item, type, start); !warning.empty()) return warning;
  }
  if (item.mount && start == Start::later) {
    if (std::string warning = about_image(name, type); !warning.empty()) return warning;
  }
  if (type == S_IFDIR && !archive_suffix(name).empty())
    return name + " is named like an archive but is a directory: it is copied as it is, to " +
           "$SLURM_TMPDIR/" + destination_of(item);
  const bool may_be_archive = item.extract == Extract::yes && compressed_suffix(name).empty();
  const bool is_archive = may_be_archive || !archive_suffix(name).empty();
  if (type != S_IFDIR && item.extract != Extract::no && is_archive &&
      !archive_suffix(item.destination).empty())
    return "$SLURM_TMPDIR/" + item.destination + " becomes a directory, with what is in " + name +
           "; extract=no copies the archive as it is";
  if (start == Start::now || item.optional) return {};
  std::string part = missing_part(item.source);
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
  if (!is_program_name(venv.python) || venv.python == k_keep_python || !venv.modules.empty())
    return {};
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

std::vector<std::string> warnings_of(const StageRequest& request, Start start,
                                     const std::string& array) {
  std::vector<std::string> warnings;
  for (DatasetItem item : request.datasets) {
    for (const std::string& source : all_sources(item)) {
      warnings.push_back(about_percent_sign(source));
      Result<std::vector<std::string>> names = std::vector<std::string>{source};
      if (has_patterns(source))
        names = names_before_start(source, array, WhichTasks::first_and_last);
      if (!names) continue;
      for (std::string& name : *names) {
        item.source = std::move(name);
        warnings.push_back(about_dataset(item, start));
      }
    }
  }
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
    if (!item.include.empty() || !item.exclude.empty() || item.optional) continue;
    for (const std::string& source : all_sources(item)) {
      struct stat info {};
      if (::stat(source.c_str(), &info) == 0 && S_ISREG(info.st_mode))
        bytes += static_cast<std::uint64_t>(info.st_size);
    }
  }
  return bytes;
}

// Encodes for a pipe: the number, and then a line for each warning.
std::string encode(const RequestLook& look) {
  std::string text = std::to_string(look.least_bytes) + "\n";
  for (const std::string& warning : look.warnings) text += warning + "\n";
  return text;
}

std::optional<RequestLook> decode(std::string_view text) {
  if (text.empty()) return {};
  RequestLook look{{}, parse_number<std::uint64_t>(take_part(text, '\n')).value_or(0)};
  while (!text.empty()) look.warnings.emplace_back(take_part(text, '\n'));
  return look;
}

}  // namespace

RequestLook look_at_request(const StageRequest& request, Start start, const std::string& array) {
  return {warnings_of(request, start, array), least_bytes(request)};
}

RequestLook look_in_time(const StageRequest& request, Start start, const std::string& array) {
  const auto answer =
      ask_apart(k_ask_patience, [&] { return encode(look_at_request(request, start, array)); });
  const auto look = answer ? decode(*answer) : std::nullopt;
  if (look) return *look;
  return {{"a file system with a source or target does not answer on this host, so they were not "
           "looked at"},
          0};
}

}  // namespace nodestage
