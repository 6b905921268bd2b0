#include "plugin/slurm_conf_file.hpp"

#include <fcntl.h>
#include <strings.h>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 8 << 20;
constexpr int k_max_depth = 4;
constexpr std::string_view k_blanks = " \t\r";

bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// Takes the first word of the line, without the quotation marks around it.
std::string_view take_word(std::string_view& line) {
  line = trimmed(line, k_blanks);
  std::string_view blanks = k_blanks;
  if (line.starts_with('"')) {
    line.remove_prefix(1);
    blanks = "\"";
  }
  const std::string_view word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  if (blanks == "\"" && !line.empty()) line.remove_prefix(1);
  return word;
}

bool look_into(const std::string& path, std::string_view key, int depth, std::string& value);

// A line has an Include, or one KEY=VALUE or more, with or without blanks around the "=".
void look_at_line(const std::string& path, std::string_view line, std::string_view key, int depth,
                  std::string& value) {
  while (!line.empty()) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      if (!is_same(take_word(line), "include") || depth == k_max_depth) return;
      const std::string file(take_word(line));
      const std::string directory =
          file.starts_with('/') ? "" : path.substr(0, path.rfind('/') + 1);
      look_into(directory + file, key, depth + 1, value);
      return;
    }
    const std::string_view name = trimmed(line.substr(0, equals), k_blanks);
    line.remove_prefix(equals + 1);
    const std::string_view word = take_word(line);
    if (is_same(name, key)) value = word;
    line = trimmed(line, k_blanks);
  }
}

bool look_into(const std::string& path, std::string_view key, int depth, std::string& value) {
  const auto text = read_file(AT_FDCWD, path, k_max_bytes);
  if (!text) return false;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = take_field(rest, '\n');
    look_at_line(path, trimmed(line.substr(0, line.find('#')), k_blanks), key, depth, value);
  }
  return true;
}

}  // namespace

std::optional<std::string> setting_in_slurm_conf(const std::string& path, std::string_view key) {
  std::string value;
  if (!look_into(path, key, 0, value)) return std::nullopt;
  return value;
}

bool implies_alloc(std::string_view prolog_flags) {
  while (!prolog_flags.empty()) {
    const std::string_view flag = take_field(prolog_flags, ',');
    if (!flag.empty() && !is_same(flag, "serial") && !is_same(flag, "none")) return true;
  }
  return false;
}

}  // namespace nodestage
