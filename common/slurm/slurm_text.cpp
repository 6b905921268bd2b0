#include "common/slurm/slurm_text.hpp"

#include <fcntl.h>
#include <strings.h>

#include <utility>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_conf_bytes = 8 << 20;
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

// Reads a file and those that it includes. A relative path in any of them is below the directory of
// the first one.
class ConfReader {
 public:
  explicit ConfReader(std::string directory) : directory_(std::move(directory)) {}

  bool read(const std::string& path, int depth = 0) {
    const auto text = read_file(AT_FDCWD, path, k_max_conf_bytes);
    if (!text) return false;
    std::string line;
    for (std::string_view rest = *text; !rest.empty();) {
      const std::string_view part = trimmed(take_field(rest, '\n'), "\r");
      line += part;
      if (part.ends_with('\\')) {  // It goes on in the next line.
        line.pop_back();
        if (!rest.empty()) continue;
      }
      take_line(trimmed(std::string_view(line).substr(0, line.find('#')), k_blanks), depth);
      line.clear();
    }
    return true;
  }
  SlurmConf take() { return std::move(conf_); }

 private:
  // A line has an Include, or one KEY=VALUE or more, with or without blanks around the "=".
  void take_line(std::string_view line, int depth) {
    while (!line.empty()) {
      const std::size_t equals = line.find('=');
      if (equals == std::string_view::npos) {
        if (is_same(take_word(line), "include")) include(std::string(take_word(line)), depth);
        return;
      }
      const std::string_view name = trimmed(line.substr(0, equals), k_blanks);
      line.remove_prefix(equals + 1);
      const std::string_view word = take_word(line);
      conf_.values[lower(name)] = word;
      line = trimmed(line, k_blanks);
    }
  }

  void include(std::string file, int depth) {
    if (depth == k_max_depth) return;
    if (const std::size_t at = file.find("%c"); at != std::string::npos) {
      file.replace(at, 2, lower(conf_.value("ClusterName")));
    }
    read(file.starts_with('/') ? file : directory_ + file, depth + 1);
  }

  std::string directory_;
  SlurmConf conf_;
};

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

}  // namespace

std::string SlurmConf::value(std::string_view key) const {
  const auto found = values.find(lower(key));
  return found == values.end() ? "" : found->second;
}

std::optional<SlurmConf> read_slurm_conf(const std::string& path) {
  ConfReader reader(path.substr(0, path.rfind('/') + 1));
  if (!reader.read(path)) return std::nullopt;
  return reader.take();
}

std::optional<std::string> setting_in_slurm_conf(const std::string& path, std::string_view key) {
  const auto conf = read_slurm_conf(path);
  if (!conf) return std::nullopt;
  return conf->value(key);
}

bool implies_alloc(std::string_view prolog_flags) {
  while (!prolog_flags.empty()) {
    const std::string_view flag = take_field(prolog_flags, ',');
    if (!flag.empty() && !is_same(flag, "serial") && !is_same(flag, "none")) return true;
  }
  return false;
}

std::optional<std::uint32_t> cpus_of_node(std::string_view text, std::size_t node_index) {
  for (;;) {
    const auto cpus = take_number<std::uint32_t>(text);
    if (!cpus || *cpus == 0) return std::nullopt;
    std::optional<std::uint32_t> nodes = 1;
    if (take(text, "(x")) {
      nodes = take_number<std::uint32_t>(text);
      if (!nodes || !take(text, ")")) return std::nullopt;
    }
    if (node_index < *nodes) return cpus;
    node_index -= *nodes;
    if (!take(text, ",")) return std::nullopt;
  }
}

}  // namespace nodestage
