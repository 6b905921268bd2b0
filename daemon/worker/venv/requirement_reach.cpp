#include "daemon/worker/venv/requirement_reach.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/venv/build_variables.hpp"
#include "daemon/worker/venv/requirement_lines.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_of_names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

struct Variable {
  std::size_t begin = 0;  // of "${NAME}" in its text
  std::size_t size = 0;
  std::string name;
};

std::optional<Variable> variable_in(std::string_view text, std::size_t from) {
  for (std::size_t at = from; (at = text.find("${", at)) != std::string_view::npos; at += 2) {
    const std::size_t end = text.find_first_not_of(k_of_names, at + 2);
    if (end == std::string_view::npos || end == at + 2 || text[end] != '}') continue;
    return Variable{at, end + 1 - at, std::string(text.substr(at + 2, end - at - 2))};
  }
  return {};
}

// Also of "git+ssh://host/x". A file has one, too.
bool is_remote(std::string_view place) {
  const std::size_t end = place.find("://");
  if (end == std::string_view::npos) return false;
  const std::string_view scheme = place.substr(0, end);
  return !scheme.ends_with("file");
}

// What pip opens because of a line: not the addresses of indexes, which a build does not ask.
std::vector<std::string> places_of(const RequirementLine& line) {
  std::vector<std::string> places;
  if (!line.requirement.empty()) places.push_back(line.requirement);
  for (const auto& option : line.options) {
    if (option.is("-e", "--editable", 4) || option.is("-r", "--requirement", 7) ||
        option.is("-c", "--constraint", 3))
      places.push_back(option.value);
  }
  return places;
}

// An address can have a password or a token before its host; that of ssh has a name there.
std::string without_password(std::string line) {
  const std::size_t scheme = line.find("://");
  if (scheme == std::string::npos || line.substr(0, scheme).ends_with("ssh")) return line;
  const std::size_t begin = scheme + 3;
  const std::size_t at = line.substr(0, line.find_first_of("/ ", begin)).rfind('@');
  if (at != std::string::npos && at > begin) line.replace(begin, at - begin, "****");
  return line;
}

Error no_network(const std::string& path, const std::string& line) {
  return fault(ENETUNREACH,
               shown(path) + ": '" + shown(without_password(line)) +
                   "' is downloaded, and an environment is built on a node without a network",
               "Download it where there is a network (pip download or pip wheel -w DIR), write its "
               "name alone into the file, and give wheels=DIR");
}

Error no_variable(const std::string& path, const std::string& line, const std::string& variable) {
  return fault(EINVAL,
               shown(path) + ": '" + shown(line) + "': the build has no variable " + variable,
               "Write its value into the file. A variable reaches a build if it is exported where "
               "you submit and your site passes it on (venv_environment= in plugstack.conf)");
}

// Returns the part of an address that pip prints, without password, version, and hash.
std::string_view core_of(std::string_view place) {
  place.remove_prefix(place.find("://") + 3);
  const std::size_t at = place.substr(0, place.find('/')).find('@');
  if (at != std::string_view::npos) place.remove_prefix(at + 1);
  return place.substr(0, place.find_first_of(" #;@"));
}

class Reach {
 public:
  Reach(const std::vector<std::string>& environment, std::string_view log)
      : environment_(environment), log_(log) {}

  // A file that cannot be read is pip's to report.
  Status check_file(const std::string& path) {
    if (seen_.size() >= k_max_requirement_files || !seen_.insert(path).second) return {};
    const auto text = read_requirements(path);
    for (const auto& line : requirement_lines(text ? *text : "")) TRY(check_line(line, path));
    return {};
  }

 private:
  Status check_line(const RequirementLine& written, const std::string& path) {
    const bool is_marked = written.requirement.find(';') != std::string::npos;
    const auto counts = [&](std::string_view part) {
      return !is_marked || log_.find(part) != std::string_view::npos;
    };
    const RequirementLine line = requirement_line(with_variables(written.text, environment_));
    for (const std::string& place : places_of(line)) {
      const std::string variable = first_variable(place);
      if (!variable.empty() && counts(variable)) return no_variable(path, written.text, variable);
      if (is_remote(place) && counts(core_of(place))) return no_network(path, written.text);
    }
    for (const auto& option : line.options) {
      if (const std::string next = included_file(option, path); !next.empty())
        TRY(check_file(next));
    }
    return {};
  }

  const std::vector<std::string>& environment_;
  const std::string_view log_;
  std::set<std::string> seen_;
};

}  // namespace

std::string with_variables(std::string_view text, const std::vector<std::string>& environment) {
  std::string result(text);
  for (auto variable = variable_in(result, 0); variable;) {
    const std::string value = value_in(environment, variable->name);
    const std::size_t size = value.empty() ? variable->size : value.size();
    if (!value.empty()) result.replace(variable->begin, variable->size, value);
    variable = variable_in(result, variable->begin + size);
  }
  return result;
}

std::string first_variable(std::string_view text) {
  const auto variable = variable_in(text, 0);
  return variable ? std::string(text.substr(variable->begin, variable->size)) : std::string();
}

Status check_reach(const std::string& path, const std::vector<std::string>& environment,
                   std::string_view log) {
  return Reach(environment, log).check_file(path);
}

}  // namespace nodestage
