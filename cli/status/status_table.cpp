#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "cli/base/listing.hpp"
#include "cli/status/status.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/talk/summary.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "common/wire/node_report.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {
namespace {

constexpr off_t k_tail_bytes = off_t{256} << 10;  // the results are at the end
constexpr std::size_t k_most_lines = 40;
constexpr std::string_view k_completing = "COMPLETING";

// What a line says of the results on its node.
enum class Results { nothing, kept, lost, delivered };

Results results_in(std::string_view line) {
  line.remove_prefix(std::min(line.find(": "), line.size()));
  const auto says = [line](std::string_view what) {
    return line.starts_with(": ") && line.substr(2).starts_with(what);
  };
  if (says(k_results_kept)) return Results::kept;
  for (const auto what : {k_results_lost_with_site, k_results_lost, k_kept_removed, k_kept_taken})
    if (says(what)) return Results::lost;
  return says(k_kept_delivered) || says(k_kept_recovered) ? Results::delivered : Results::nothing;
}

std::string node_in(const std::string& line) { return line.substr(0, line.find(": ")); }

// Whether a node says nothing better of its results in the end.
bool has_undelivered(const std::vector<std::string>& lines) {
  std::map<std::string, Results> last;
  for (const std::string& line : lines) {
    const Results results = results_in(line);
    if (results != Results::nothing) last[node_in(line)] = results;
  }
  return std::any_of(last.begin(), last.end(),
                     [](const auto& of_node) { return of_node.second != Results::delivered; });
}

bool tells_of_results(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return results_in(line) != Results::nothing; });
}

// Returns the path of a notice of the job (daemon/worker/out/job_output.hpp) that does not say that
// all is well in the end; or "".
std::string notice_of_loss(const SlurmJob& job, const SlurmOutput& output) {
  const std::string start = "nodestage-" + std::to_string(job.id);
  const std::string title = "nodestage: job " + std::to_string(job.id) + ",";
  const std::string beside = output.path.substr(0, output.path.rfind('/') + 1);
  for (const std::string& directory : std::set{beside, output.work_dir + "/"}) {
    if (directory.size() < 2) continue;
    auto names = DirectoryStream::at(AT_FDCWD, directory);
    while (const auto name = names.next()) {
      if (!name->starts_with(start) || !name->ends_with(".txt")) continue;
      const char next = (*name)[start.size()];
      if (next != '.' && next != '-') continue;
      std::string path = directory + std::string(*name);
      const auto text = read_output_end(path, job.uid);
      if (text && text->starts_with(title) && text->find(k_notice_is_over) == std::string::npos &&
          text->find(k_notice_of_missing) == std::string::npos)
        return path;
    }
  }
  return {};
}

void drop_outdated(std::vector<std::string>& lines) {
  std::set<std::string> ended;  // nodes that keep nothing any more
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const Results results = results_in(*line);
    if (results == Results::kept && ended.contains(node_in(*line))) line->clear();
    if (results == Results::delivered || results == Results::lost) ended.insert(node_in(*line));
  }
  std::erase(lines, "");
}

// Of its progress, what a node said last is enough.
void drop_earlier_progress(std::vector<std::string>& lines) {
  std::set<std::string> nodes;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (is_progress(*line) && !nodes.insert(node_in(*line)).second) line->clear();
  std::erase(lines, "");
}

std::string sources_of(const JobEnd& end, const std::string& job) {
  const std::string report = "`nodestage report " + job + "` shows what its nodes recorded";
  if (end.output.empty())
    return "its output is the terminal of srun or salloc, or a file whose name Slurm does not "
           "have; " +
           report;
  const std::string path = printable(end.output);
  if (!end.is_read) return "its output, " + path + ", cannot be read on this host; " + report;
  if (!end.nodes.empty()) return "nodestage writes what becomes of the results to " + path;
  if (end.lines.empty()) return "nodestage wrote nothing to its output, " + path;
  return "these are nodestage's lines in " + path + "; " + report;
}

// What lines about a later component start with: those of its steps with the node's name, and those
// about its results with a mark, too. Empty: all lines are about the job.
std::vector<std::string> names_of_component(const SlurmJob& job, std::uint32_t het_job) {
  if (het_job == k_no_number) return {};
  auto names = expand_nodes(job.nodes);
  if (!names) return {};
  for (std::size_t i = 0, count = names->size(); i < count; ++i)
    names->push_back((*names)[i] + component_mark(het_job, job.id));
  return std::move(*names);
}

}  // namespace

// The user chose the path, and root can be the one who looks: a device or a FIFO is not opened, and
// a lease of the user's (F_SETLEASE) is not waited for.
Result<std::string> read_output_end(const std::string& path, std::uint32_t owner) {
  TRY_ASSIGN(const Fd found, open_at(AT_FDCWD, path, O_PATH));
  struct stat info {};
  if (::fstat(found.get(), &info) != 0) return system_error(path);
  if (!S_ISREG(info.st_mode) || info.st_uid != owner)
    return Error{EINVAL, path + " is not a regular file of the job's user"};
  TRY_ASSIGN(const Fd file, open_at(AT_FDCWD, "/proc/self/fd/" + std::to_string(found.get()),
                                    O_RDONLY | O_NONBLOCK));
  if (::lseek(file.get(), std::max<off_t>(info.st_size - k_tail_bytes, 0), SEEK_SET) < 0)
    return system_error(path);
  return read_all(file.get(), 2 * static_cast<std::size_t>(k_tail_bytes));
}

std::vector<std::string> lines_of_nodestage(std::string_view output,
                                            const std::vector<std::string>& of_nodes) {
  std::vector<std::string> lines;
  while (!output.empty()) {
    std::string_view line = take_field(output, '\n');
    if (!line.starts_with(k_line_start)) continue;
    line.remove_prefix(k_line_start.size());
    std::string text = printable(line);
    const bool is_asked_for = of_nodes.empty() || std::find(of_nodes.begin(), of_nodes.end(),
                                                            node_in(text)) != of_nodes.end();
    if (is_asked_for) lines.push_back(std::move(text));
  }
  drop_outdated(lines);
  drop_earlier_progress(lines);
  if (lines.size() > k_most_lines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(k_most_lines));
  return lines;
}

JobEnd end_of_job(const SlurmJob& job, const std::string& wanted) {
  JobEnd end;
  end.is_completing = is_completing(job);
  if (job.state == k_completing) end.nodes = job.nodes;
  const SlurmOutput output = find_output(wanted);
  end.output = output.path;
  const auto look_for_notice = [&] {
    if (!end.is_completing && !tells_of_results(end.lines))
      end.notice = notice_of_loss(job, output);
  };
  if (end.output.empty()) {
    look_for_notice();
    return end;
  }
  const std::string beside =
      output.path.substr(0, output.path.rfind('/') + 1) + lines_file_name(job.id);
  const auto text = read_output_end(output.path, job.uid);
  const auto apart = read_output_end(beside, job.uid);
  if (apart) end.output = text ? output.path + " and " + beside : beside;
  end.is_read = text || apart;
  // A component that has not started has said nothing.
  if (output.het_job != k_no_number && job.nodes.empty()) return end;
  end.lines = lines_of_nodestage((text ? *text + "\n" : "") + (apart ? *apart : ""),
                                 names_of_component(job, output.het_job));
  look_for_notice();
  return end;
}

bool has_failed(const StatusReport& report) {
  if (report.end) {
    const bool may_be_well = report.slurm_state == "COMPLETED" || report.end->is_completing;
    return !may_be_well || has_undelivered(report.end->lines) || !report.end->notice.empty();
  }
  return std::any_of(report.jobs.begin(), report.jobs.end(), [](const JobStatus& status) {
    return status.row.state == to_text(JobState::failed) ||
           status.row.state == to_text(JobState::held);
  });
}

std::string end_text(const JobEnd& end, const std::string& job, const std::string& state) {
  std::string text = "job " + job;
  if (!end.is_completing) {
    text += " is over (" + printable(state) + ")\n";
  } else if (state != k_completing) {
    text += " has ended and is " + printable(state) + ": Slurm copies out its burst buffers\n";
  } else {
    text += " has ended and is " + printable(state) + " on " + printable(end.nodes) +
            ": if it has results, they are delivered there now\n";
  }
  for (const std::string& line : end.lines) text += "  " + line + "\n";
  if (!end.notice.empty())
    text += "  not all of its results arrived: " + printable(end.notice) + " has the reason\n";
  return text + sources_of(end, job) + "\n";
}

namespace {

constexpr std::size_t k_item_width = 40;
constexpr std::size_t k_least_item_width = 12;
constexpr std::size_t k_column_count = 8;
enum Column : std::size_t { k_node, k_state, k_item, k_item_state, k_bytes, k_files, k_rate };
using Cells = std::array<std::string, k_column_count>;

const Cells k_head = {"NODE", "STATE", "ITEM", "ITEM STATE", "BYTES", "FILES", "RATE", "LEFT"};

// What a narrow table does without, the first first. The line of the job tells the nodes' states.
constexpr std::array k_dropped_before_names = {k_files, k_state};
constexpr std::array k_dropped_after_names = {k_item_state, k_rate};

// An item for which nothing was staged has no figures: its note says why.
bool is_linked(const StatusItem& item) { return (item.flags & k_item_linked) != 0; }

// Returns whether it was not delivered so far, while the job runs.
bool is_for_the_end(const StatusItem& item) {
  return item.kind == ItemKind::output && item.state == ItemState::skipped && item.note.empty();
}

std::string bytes_text(const StatusItem& item) {
  if (is_linked(item)) return "-";
  const bool is_open = item.state == ItemState::working || item.state == ItemState::waiting;
  if (!is_open) return item.state == ItemState::done ? human_bytes(item.bytes_written) : "-";
  if (item.bytes_total != 0)
    return bytes_of(item.bytes_read, item.bytes_total) + " (" +
           percent(item.bytes_read, item.bytes_total) + ")";
  return item.bytes_read == 0 ? "-" : human_bytes(item.bytes_read) + " read";
}

Cells cells_of(const StatusItem& item) {
  const bool has_files =
      !is_linked(item) && (item.state == ItemState::working || item.state == ItemState::done);
  const std::uint64_t rate = rate_of(item);
  const auto left = seconds_left(item);
  const std::string title = item_title(item.source, item.what);
  return {"",
          "",
          printable(shortened(title, k_item_width)),
          is_for_the_end(item) ? "at the end" : word_of(k_item_state_words, item.state),
          bytes_text(item),
          has_files ? human_count(item.files) : "-",
          rate == 0 ? "-" : human_bytes(rate) + "/s",
          left ? about_seconds(static_cast<double>(*left)) : "-"};
}

Ink ink_of(const std::string& cell, std::size_t column) {
  if (column != k_state && column != k_item_state) return Ink::plain;
  return cell == word_of(k_item_state_words, ItemState::failed) ? Ink::red
         : cell == "held"                                       ? Ink::yellow
                                                                : Ink::plain;
}

class Table {
 public:
  Table() : lines_{k_head} {}

  void add(const JobStatus& status) {
    const std::size_t first = lines_.size();
    for (const StatusItem& item : status.items) lines_.push_back(cells_of(item));
    if (status.items.empty()) lines_.push_back({"", "", "-", "-", "-", "-", "-", "-"});
    lines_[first][k_node] = printable(status.row.node);
    lines_[first][k_state] = printable(status.row.state);
  }

  void narrow(std::size_t width) {
    for (const Column column : k_dropped_before_names) drop_if_wider(width, column);
    const std::size_t names = widths()[k_item];
    if (total() > width)
      shorten_items(std::max(names - std::min(names, total() - width), k_least_item_width));
    for (const Column column : k_dropped_after_names) drop_if_wider(width, column);
  }

  [[nodiscard]] std::string text(bool has_colour) const {
    const auto widths = this->widths();
    std::string text;
    for (const Cells& line : lines_) {
      text += ' ';
      for (std::size_t i = 0; i < k_column_count; ++i) {
        if (is_dropped_[i]) continue;
        text += " " + inked(line[i], has_colour ? ink_of(line[i], i) : Ink::plain) +
                (i + 1 < k_column_count ? std::string(widths[i] - width_of(line[i]) + 1, ' ') : "");
      }
      text += '\n';
    }
    return text;
  }

 private:
  [[nodiscard]] std::array<std::size_t, k_column_count> widths() const {
    std::array<std::size_t, k_column_count> widths{};
    for (const Cells& line : lines_) {
      for (std::size_t i = 0; i < k_column_count; ++i)
        widths[i] = std::max(widths[i], width_of(line[i]));
    }
    return widths;
  }

  // Two blanks stand before each column.
  [[nodiscard]] std::size_t total() const {
    std::size_t total = 0;
    const auto widths = this->widths();
    for (std::size_t i = 0; i < k_column_count; ++i) total += is_dropped_[i] ? 0 : 2 + widths[i];
    return total;
  }

  void drop_if_wider(std::size_t width, Column column) {
    if (total() > width) is_dropped_[column] = true;
  }

  void shorten_items(std::size_t width) {
    for (Cells& line : lines_) line[k_item] = shortened(line[k_item], width);
  }

  std::vector<Cells> lines_;
  std::array<bool, k_column_count> is_dropped_{};
};

// "staging", "staging on 2 nodes, ready on 1"
std::string states_of(const std::vector<const JobStatus*>& nodes) {
  if (nodes.size() == 1) return printable(nodes.front()->row.state);
  std::map<std::string, std::size_t> counts;
  for (const JobStatus* status : nodes) ++counts[printable(status->row.state)];
  std::string text;
  for (const auto& [state, count] : counts) {
    text += (text.empty() ? "" : ", ") + state + " on " +
            (text.empty() ? counted(count, "node", "nodes") : human_count(count));
  }
  return text;
}

// What does not fit into the table: what several nodes say stands there once.
class Words {
 public:
  void add(const std::string& node, const std::string& what) {
    if (what.empty()) return;
    const std::string name = printable(node);
    // The job's other nodes say who has failed.
    const auto same = std::find_if(said_.begin(), said_.end(), [&what](const Said& said) {
      return said.what == what || failure_on(said.nodes, said.what) == what ||
             failure_on({said.nodes.front()}, said.what) == what;
    });
    if (same == said_.end()) return said_.push_back({{name}, what});
    if (same->nodes.back() != name) same->nodes.push_back(name);
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    for (const Said& said : said_) {
      text += "  " + nodes_text(said.nodes) + ": ";
      for (const char c : printable(said.what, Newlines::keep)) {
        text += c;
        if (c == '\n') text += "    ";
      }
      text += '\n';
    }
    return text;
  }

 private:
  struct Said {
    std::vector<std::string> nodes;  // printable
    std::string what;
  };

  std::vector<Said> said_;
};

void add_words(Words& words, const JobStatus& status) {
  const StatusRow& row = status.row;
  const std::string cause = in_one_line(row.cause);
  for (const StatusItem& item : status.items) {
    const bool is_shown = cause.find(item.note) != std::string::npos;
    if (is_shown) continue;
    const bool has_target = item.kind == ItemKind::output && !item.destination.empty();
    words.add(row.node, item_title(item.source, item.what) +
                            (has_target ? " -> " + printable(item.destination) : "") + ": " +
                            item.note);
  }
  words.add(row.node, row.cause);
  words.add(row.node, row.others);
  if (!row.kept_in.empty()) words.add(row.node, "kept in " + row.kept_in);
}

std::string job_text(const std::vector<const JobStatus*>& nodes, Owners owners, bool has_colour,
                     std::size_t width) {
  const StatusRow& row = nodes.front()->row;
  std::string text = "job " + std::to_string(row.job);
  if (row.restart != 0) text += " (restart " + std::to_string(row.restart) + ")";
  if (owners == Owners::name) text += " of " + printable(row.user);
  text += ": " + states_of(nodes) + "\n";
  Table table;
  for (const JobStatus* status : nodes) table.add(*status);
  table.narrow(width);
  text += table.text(has_colour);
  Words words;
  for (const JobStatus* status : nodes) add_words(words, *status);
  return text + words.text();
}

std::string nothing_text(const StatusReport& report, const std::string& job) {
  if (report.end) return end_text(*report.end, job, report.slurm_state);
  if (job.empty()) return "nodestaged knows no job of yours on this node\n";
  if (!report.faults.empty()) return "job " + job + ": no node has reported anything about it\n";
  if (report.slurm_state == k_suspended)
    return "job " + job +
           " is suspended: Slurm starts no step in it, so its nodes cannot be asked "
           "until it is resumed; on a node of it, `nodestage status --here` works\n";
  return "job " + job + " is pending: its staging starts when the job starts" +
         (report.reason.empty() || report.reason == "None"
              ? ""
              : " (" + printable(report.reason) + ")") +
         "\n";
}

}  // namespace

std::string status_text(const StatusReport& report, const std::string& job, Owners owners,
                        bool has_colour, std::size_t width) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<const JobStatus*>> jobs;
  for (const JobStatus& status : report.jobs)
    jobs[{status.row.job, status.row.restart}].push_back(&status);
  std::string text;
  for (const auto& item : jobs) text += job_text(item.second, owners, has_colour, width);
  if (jobs.empty()) text = nothing_text(report, job);
  Words faults;
  for (const NodeFault& fault : report.faults) faults.add(fault.node, fault.what);
  return text + faults.text();
}

}  // namespace nodestage
