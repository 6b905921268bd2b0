#include "cli/slurm/node_jobs.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "cli/process/programs.hpp"
#include "common/os/mounts.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_mark = "nodestage-report";
constexpr std::size_t k_piece_bytes = 600;
constexpr std::size_t k_most_pieces = k_max_report_bytes / k_piece_bytes + 1;
constexpr std::size_t k_bytes_a_node = std::size_t{128} << 10;
constexpr std::size_t k_least_bytes = std::size_t{1} << 20;  // many texts of a few nodes
constexpr std::size_t k_most_bytes = std::size_t{256} << 20;

struct TextPiece {
  std::string_view node;
  std::uint32_t number = 0;
  std::size_t index = 0;
  std::size_t count = 0;
  std::string_view text;
};

std::optional<TextPiece> piece_of(std::string_view line) {
  if (take_field(line, ' ') != k_mark) return {};
  const std::string_view node = take_field(line, ' ');
  const auto number = parse_number<std::uint32_t>(take_field(line, ' '));
  const auto index = parse_number<std::size_t>(take_field(line, ' '));
  const auto count = parse_number<std::size_t>(take_field(line, ' '));
  if (!number || !index || !count || *index >= *count || *count > k_most_pieces ||
      line.size() > k_piece_bytes)
    return {};
  return TextPiece{node, *number, *index, *count, line};
}

// The pieces of one text, in order; borrowed.
using Parts = std::vector<std::string_view>;
using NodeParts = std::map<std::uint32_t, Parts>;

void keep(const TextPiece& piece, NodeParts& texts, std::size_t most_texts) {
  if (texts.size() >= most_texts && !texts.contains(piece.number)) return;
  Parts& parts = texts[piece.number];
  parts.resize(std::max(parts.size(), piece.count));
  parts[piece.index] = piece.text;
}

}  // namespace

std::string text_to_pieces(const std::string& node, std::uint32_t number, const std::string& text) {
  const std::size_t count = (text.size() + k_piece_bytes - 1) / k_piece_bytes;
  std::string lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines += std::string(k_mark) + " " + node + " " + std::to_string(number) + " " +
             std::to_string(i) + " " + std::to_string(count) + " " +
             text.substr(i * k_piece_bytes, k_piece_bytes) + "\n";
  }
  return lines;
}

std::string end_of_pieces(const std::string& node) {
  return text_to_pieces(node, k_end_number, "end");
}

NodeTexts texts_from_pieces(std::string_view output, const std::vector<std::string>& nodes,
                            std::size_t most_texts) {
  std::map<std::string_view, NodeParts> asked;
  for (const std::string& node : nodes) asked.try_emplace(node);
  while (!output.empty()) {
    const auto piece = piece_of(take_field(output, '\n'));
    if (!piece) continue;
    if (const auto found = asked.find(piece->node); found != asked.end())
      keep(*piece, found->second, most_texts);
  }
  NodeTexts texts;
  for (const auto& [node, parts_of] : asked) {
    for (const auto& [number, parts] : parts_of) {
      std::string& text = texts[std::string(node)][number];
      for (const std::string_view part : parts) text += part;
    }
  }
  return texts;
}

std::size_t most_bytes_of_pieces(std::size_t nodes) {
  return std::clamp(nodes * k_bytes_a_node, k_least_bytes, k_most_bytes);
}

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
  for (std::string_view line : parts_of(output, '\n')) {
    std::array<std::string, k_fields> fields;
    for (std::size_t i = 0; i + 1 < k_fields; ++i) fields[i] = take_part(line, '|');
    fields.back() = line;  // a reason can contain '|'
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

namespace {

// The limit for a job to start, and for the answers.
constexpr unsigned k_immediate_s = 60;
constexpr std::chrono::seconds k_answers{k_immediate_s + 60};
constexpr std::size_t k_most_singles = 64;  // more jobs that wait would burden the controller
constexpr std::size_t k_most_retried = 4 * k_most_singles;  // most of them start at once
constexpr std::size_t k_most_names = 10;
constexpr std::size_t k_whole_names = std::string::npos;

// Returns why no job can start there; empty: one can.
std::string why_closed(const SlurmNode& node) {
  if (node.is_off) return "switched off";
  if (node.is_silent) return "slurmd does not answer";
  static constexpr std::string_view k_open[] = {"idle",     "mixed",   "allocated", "completing",
                                                "reserved", "planned", "blocked",   "allocating"};
  const bool is_open =
      std::find(std::begin(k_open), std::end(k_open), node.state) != std::end(k_open);
  return is_open ? "" : printable(node.state);
}

std::string why_silent(const ProgramEnd& end) {
  const bool is_busy = !end.late && end.errors.find("nodes are busy") != std::string::npos;
  return is_busy ? "no CPU was free within " + std::to_string(k_immediate_s) + " s"
                 : why_srun_failed(end, k_answers, 200);
}

bool is_refused(const ProgramEnd& end) {
  return end.errors.find("Unable to allocate") != std::string::npos;
}

// Slurm starts a job on all of its nodes or on none: a smaller group loses fewer answers, and can
// be tried again node by node.
void add_in_parts(const NodeGroup& group, std::vector<NodeGroup>& groups) {
  for (std::size_t i = 0; i < group.nodes.size(); ++i) {
    if (i % k_most_nodes_of_group == 0) groups.push_back({{}, group.partition});
    groups.back().nodes.push_back(group.nodes[i]);
  }
}

class NodeJobs {
 public:
  NodeJobs(const std::vector<std::string>& command, NodeAnswers& answers)
      : command_(command), answers_(answers) {}

  // Returns the nodes, one by one, of those groups for which Slurm refused a job.
  std::vector<NodeGroup> run(const std::vector<NodeGroup>& groups) {
    std::vector<Program> programs;
    for (const NodeGroup& group : groups) {
      Program program{node_job_words(group, command_),
                      environment_outside_of_jobs(),
                      {},
                      most_bytes_of_pieces(group.nodes.size())};
      program.environment->push_back(std::string(k_observer_variable) + "=1");
      programs.push_back(std::move(program));
    }
    const std::vector<ProgramEnd> ends = run_programs(programs, k_answers, k_most_singles + 8);
    std::vector<NodeGroup> again;
    for (std::size_t i = 0; i < groups.size(); ++i) take(groups[i], ends[i], again);
    return again;
  }

 private:
  void take(const NodeGroup& group, const ProgramEnd& end, std::vector<NodeGroup>& again) {
    answers_.output += end.output + "\n";
    answers_.is_cut = answers_.is_cut || end.is_cut;
    if (end.code == 0 && !end.late) return;
    const bool is_tried_again = group.nodes.size() > 1 && is_refused(end) &&
                                again.size() + group.nodes.size() <= k_most_retried;
    for (const std::string& node : group.nodes) {
      if (is_tried_again)
        again.push_back({{node}, group.partition});
      else
        answers_.silent[node] = why_silent(end);
    }
  }

  const std::vector<std::string>& command_;
  NodeAnswers& answers_;
};

}  // namespace

std::vector<std::string> environment_outside_of_jobs() {
  static constexpr std::string_view k_defaults[] = {
      "SLURM_CONF", "SLURM_ACCOUNT", "SLURM_PARTITION", "SLURM_QOS", "SLURM_RESERVATION"};
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("SLURM_") ||
        std::find(std::begin(k_defaults), std::end(k_defaults), name) != std::end(k_defaults))
      environment.emplace_back(text);
  }
  return environment;
}

NodePlan plan_node_jobs(const std::vector<std::string>& nodes,
                        const std::vector<SlurmNode>& known) {
  NodePlan plan;
  if (known.empty()) {
    add_in_parts({nodes, ""}, plan.groups);
    return plan;
  }
  std::map<std::string, NodeGroup> free;  // by partition
  std::vector<NodeGroup> singles;
  const bool has_reservation = std::getenv("SLURM_RESERVATION") != nullptr;
  for (const std::string& name : nodes) {
    const SlurmNode* node = find_node(known, name);
    if (node == nullptr) {
      plan.silent[name] = "not in a partition that you can use";
      continue;
    }
    const std::string partition = node->is_in_default ? "" : node->partition;
    const bool is_reserved = node->state == "reserved" && !has_reservation;
    if (const std::string why = why_closed(*node); !why.empty()) {
      plan.silent[name] = why;
    } else if (node->idle_cpus > 0 && !is_reserved) {
      free[partition].partition = partition;
      free[partition].nodes.push_back(name);
    } else if (singles.size() < k_most_singles) {
      singles.push_back({{name}, partition});
    } else {
      plan.silent[name] = is_reserved ? "reserved" : "no CPU is free";
    }
  }
  for (const auto& item : free) add_in_parts(item.second, plan.groups);
  plan.groups.insert(plan.groups.end(), singles.begin(), singles.end());
  return plan;
}

std::vector<std::string> node_job_words(const NodeGroup& group,
                                        const std::vector<std::string>& command) {
  const std::string count = std::to_string(group.nodes.size());
  std::vector<std::string> words = {"srun",
                                    "--quiet",
                                    "--mpi=none",
                                    "--kill-on-bad-exit=0",
                                    "--stage-wait=none",
                                    "--nodelist=" + joined(group.nodes, ","),
                                    "--ntasks-per-node=1",
                                    "--nodes=" + count,
                                    "--ntasks=" + count,
                                    "--job-name=nodestage-report",
                                    "--time=1",
                                    "--cpus-per-task=1",
                                    "--mem=32M",
                                    "--immediate=" + std::to_string(k_immediate_s)};
  if (!group.partition.empty() && std::getenv("SLURM_PARTITION") == nullptr)
    words.push_back("--partition=" + group.partition);
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

NodeAnswers ask_by_jobs(const std::optional<std::vector<std::string>>& nodes,
                        const std::vector<std::string>& command) {
  const std::vector<SlurmNode> known = list_nodes(Partitions::usable);
  NodeAnswers answers;
  if (nodes) {
    answers.nodes = names_in_slurm(known, *nodes);
  } else {
    for (const SlurmNode& node : known) answers.nodes.push_back(node.name);
  }
  if (answers.nodes.empty()) return answers;
  NodePlan plan = plan_node_jobs(answers.nodes, known);
  answers.silent = std::move(plan.silent);
  NodeJobs jobs(command, answers);
  // Between sinfo's answer and the job, a node can have become busy.
  if (const auto again = jobs.run(plan.groups); !again.empty()) jobs.run(again);
  return answers;
}

std::string silence_text(const std::map<std::string, std::string>& silent) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [node, why] : silent) by_reason[why].push_back(node);
  std::string text;
  for (const auto& [why, nodes] : by_reason) {
    if (!text.empty()) text += "; ";
    text += listed(nodes, k_most_names, k_whole_names) + " (" + why + ")";
  }
  return text;
}

Status note_silent(const NodeAnswers& answers) {
  if (answers.silent.empty()) return {};
  const std::string silence = silence_text(answers.silent);
  if (answers.silent.size() == answers.nodes.size())
    return Error{EIO, "no node could be asked: " + silence};
  std::fprintf(stderr, "nodestage: no answer from %s\n", silence.c_str());
  return {};
}

}  // namespace nodestage
