// The lines of a requirements file, as pip reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct RequirementOption {
  std::string name;
  std::string value;

  // A long option's name can be shortened to `least` letters, which distinguish it.
  [[nodiscard]] bool is(std::string_view brief, std::string_view full, std::size_t least) const;
};

struct RequirementLine {
  std::string text;         // without comment, continued lines joined
  std::string requirement;  // the text before the first option
  std::vector<RequirementOption> options;
};

// How many files that include one another are read.
inline constexpr std::size_t k_max_requirement_files = 100;

// Reads a file of at most 4 MiB as UTF-8, or as UTF-16 with a byte order mark, as pip does.
Result<std::string> read_requirements(const std::string& path);

// All lines that are not empty.
std::vector<RequirementLine> requirement_lines(std::string_view text);
RequirementLine requirement_line(std::string_view line);

// Returns the name, path, or address in a requirement.
std::string_view place_in(std::string_view requirement);
// Returns whether it is a path or an address, and not a wheel.
bool is_source(std::string_view requirement);

// Returns another file that pip reads because of an option in the file `path`: of requirements, or
// of constraints; "" for any other option, and for an address.
std::string included_file(const RequirementOption& option, const std::string& path);

}  // namespace nodestage
