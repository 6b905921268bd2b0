#include "daemon/worker/venv/requirements.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/venv/requirement_lines.hpp"

namespace nodestage {
namespace {

bool wants_source(const RequirementLine& line) {
  for (const auto& option : line.options) {
    if (option.is("-e", "--editable", 4)) return true;
    if (option.is("", "--no-binary", 6)) return true;
  }
  return !line.requirement.empty() && is_source(line.requirement);
}

Error not_a_wheel(const std::string& path, const std::string& line) {
  return fault(EPERM,
               shown(path) + ": '" + shown(line) +
                   "' is not a wheel: installing it would run code of its sources, which this "
                   "site does not allow while a job is staged (venv.build = \"wheels-only\")",
               "Make a wheel of it (pip wheel --no-deps -w DIR ...), name that in the file, and "
               "give wheels=DIR");
}

Status check(const std::string& path, std::set<std::string>& seen) {
  if (seen.size() >= k_max_requirement_files || !seen.insert(path).second) return {};
  const auto text = read_requirements(path);
  for (const auto& line : requirement_lines(text ? *text : "")) {
    if (wants_source(line)) return not_a_wheel(path, line.text);
    for (const auto& option : line.options) {
      if (const std::string next = included_file(option, path); !next.empty())
        TRY(check(next, seen));
    }
  }
  return {};
}

// Lists what a file and its options read. Anything that is not understood here makes it unknown.
class Listing {
 public:
  explicit Listing(const std::string& path) : directory_(directory_of(path)) { add_text(path); }

  [[nodiscard]] RequirementFiles take() { return std::move(files_); }

 private:
  static std::string directory_of(const std::string& path) {
    return path.substr(0, path.rfind('/') + 1);
  }

  void add_text(const std::string& path) {
    if (!add_new(files_.texts, path)) return;
    const auto read = read_requirements(path);
    if (!read || files_.texts.size() > k_max_requirement_files)
      return give_up(path, "cannot be read whole");
    for (const auto& line : requirement_lines(*read)) {
      if (line.text.find("${") != std::string::npos) give_up(path, "contains a variable");
      if (!files_.unknown.empty()) return;
      add_line(line, path);
    }
  }

  void add_line(const RequirementLine& line, const std::string& path) {
    if (!line.requirement.empty()) add_requirement(line.requirement, path);
    for (const auto& option : line.options) add_option(option, path);
  }

  void add_option(const RequirementOption& option, const std::string& path) {
    static constexpr std::string_view k_harmless[] = {
        "--hash",        "--pre",       "--prefer-binary", "--require-hashes",
        "--only-binary", "--no-binary", "--no-index",      "--trusted-host"};
    if (const std::string next = included_file(option, path); !next.empty()) return add_text(next);
    const bool is_index =
        option.is("-i", "--index-url", 4) || option.is("", "--extra-index-url", 4);
    if (is_index && is_remote(option.value)) return;  // a build cannot reach it
    if (option.is("-f", "--find-links", 4)) return add_directory(option.value, path);
    if (std::find(std::begin(k_harmless), std::end(k_harmless), option.name) ==
        std::end(k_harmless))
      give_up_content(path);
  }

  void add_directory(const std::string& value, const std::string& path) {
    if (value.empty() || value.find(':') != std::string::npos) return give_up_content(path);
    add_new(files_.directories, value.starts_with('/') ? value : directory_of(path) + value);
  }

  // Relative paths start where the build runs: in the directory of the first file.
  void add_requirement(const std::string& requirement, const std::string& path) {
    static constexpr std::string_view k_scheme = "file://";
    std::string place(place_in(requirement));
    if (is_source(requirement)) return give_up_content(path);
    if (!place.ends_with(".whl")) return;
    if (place.starts_with(k_scheme)) place.erase(0, k_scheme.size());
    const bool is_relative = !place.starts_with('/');
    if (place.find_first_of(":%") != std::string::npos ||
        (is_relative && directory_of(path) != directory_))
      return give_up_content(path);
    add_new(files_.wheels, is_relative ? directory_ + place : place);
  }

  static bool is_remote(std::string_view address) {
    return address.starts_with("https://") || address.starts_with("http://");
  }

  static bool add_new(std::vector<std::string>& paths, const std::string& path) {
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) return false;
    paths.push_back(path);
    return true;
  }

  void give_up(const std::string& path, std::string_view why) {
    if (files_.unknown.empty()) files_.unknown = shown(path) + " " + std::string(why);
  }
  void give_up_content(const std::string& path) {
    give_up(path, "names files whose content is not known");
  }

  const std::string directory_;
  RequirementFiles files_;
};

}  // namespace

RequirementFiles files_of_requirements(const std::string& path) { return Listing(path).take(); }

Status check_wheels_only(const std::string& path) {
  std::set<std::string> seen;
  return check(path, seen);
}

Status check_is_requirements(const std::string& path) {
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
  return fault(EINVAL, shown(path) + ": is not a requirements file",
               "--stage-venv takes a virtual environment, an archive of one, or a requirements.txt "
               "(made by: pip freeze > requirements.txt)");
}

}  // namespace nodestage
