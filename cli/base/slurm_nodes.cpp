#include "cli/base/slurm_nodes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "cli/base/programs.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_fields = 6;

std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

// "drained*" is "drained", and does not answer; "idle~" is "idle", and is switched off.
void set_state(SlurmNode& node, const std::string& text) {
  const auto end = std::find_if(text.begin(), text.end(), [](const char c) {
    return std::isalpha(static_cast<unsigned char>(c)) == 0;
  });
  node.state.assign(text.begin(), end);
  node.is_silent = end != text.end() && *end == '*';
  node.is_off = end != text.end() && std::string_view("~#%!").find(*end) != std::string_view::npos;
}

// "allocated/idle/other/total"
unsigned idle_of(const std::string& cpus) {
  const std::size_t slash = cpus.find('/');
  if (slash == std::string::npos) return 0;
  std::string_view rest = std::string_view(cpus).substr(slash + 1);
  return take_number<unsigned>(rest).value_or(0);
}

}  // namespace

std::vector<SlurmNode> list_nodes(Partitions partitions) {
  Program program;
  program.words = {"sinfo", "--noheader", "--Node", std::string("--format=") + k_sinfo_format};
  if (partitions == Partitions::all) program.words.emplace_back("--all");
  const ProgramEnd end = run_program(program);
  return end.code == 0 && !end.late ? read_nodes(end.output) : std::vector<SlurmNode>();
}

std::vector<SlurmNode> read_nodes(std::string_view output) {
  std::vector<SlurmNode> nodes;
  std::map<std::string, std::size_t> known;
  std::istringstream lines{std::string(output)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream rest(line);
    std::array<std::string, k_fields> fields;
    for (std::size_t i = 0; i + 1 < k_fields; ++i) std::getline(rest, fields[i], '|');
    std::getline(rest, fields.back());  // a reason can contain '|'
    if (fields[0].empty() || fields[4].empty()) continue;
    const bool is_default = fields[4].ends_with('*');
    if (is_default) fields[4].pop_back();
    const auto [place, is_new] = known.try_emplace(fields[0], nodes.size());
    if (!is_new) {
      if (!is_default) continue;
      nodes[place->second].partition = fields[4];
      nodes[place->second].is_in_default = true;
      continue;
    }
    SlurmNode node;
    node.name = fields[0];
    node.host = short_name(fields[1]);
    node.partition = fields[4];
    node.is_in_default = is_default;
    set_state(node, fields[2]);
    node.idle_cpus = idle_of(fields[3]);
    if (fields[5] != "none") node.reason = fields[5];
    nodes.push_back(std::move(node));
  }
  return nodes;
}

const SlurmNode* find_node(const std::vector<SlurmNode>& nodes, const std::string& name) {
  const auto by = [&](auto is_it) -> const SlurmNode* {
    const auto found = std::find_if(nodes.begin(), nodes.end(), is_it);
    return found == nodes.end() ? nullptr : &*found;
  };
  const SlurmNode* named = by([&](const SlurmNode& node) { return node.name == name; });
  return named != nullptr
             ? named
             : by([&](const SlurmNode& node) { return node.host == short_name(name); });
}

std::vector<std::string> names_in_slurm(const std::vector<SlurmNode>& known,
                                        const std::vector<std::string>& names) {
  std::vector<std::string> all;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    const SlurmNode* node = find_node(known, name);
    const std::string& right = node == nullptr ? name : node->name;
    if (seen.insert(right).second) all.push_back(right);
  }
  return all;
}

}  // namespace nodestage
