#include <algorithm>
#include <cstdint>
#include <set>

#include "cli/base/listing.hpp"
#include "cli/report/report.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/wire/node_report.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {

bool has_origin(const ReportItem& item) {
  return item.bytes_from_storage != 0 || item.bytes_from_nodes != 0;
}

bool has_origin(const std::vector<NodeReport>& run) {
  return std::any_of(run.begin(), run.end(), [](const NodeReport& report) {
    return std::any_of(report.items.begin(), report.items.end(),
                       [](const ReportItem& item) { return has_origin(item); });
  });
}

Origin origin_of(const std::vector<NodeReport>& run) {
  std::set<std::string> relayed;
  for (const NodeReport& report : run) {
    for (const ReportItem& item : report.items) {
      if (has_origin(item)) relayed.insert(item.source);
    }
  }
  Origin origin;  // the figures are claims: a sum that is too large becomes the largest number
  const auto add = [](Origin& total, std::uint64_t from_storage, std::uint64_t from_nodes) {
    total.from_storage = more(total.from_storage, from_storage);
    total.from_nodes = more(total.from_nodes, from_nodes);
  };
  for (const NodeReport& report : run) {
    Origin node;
    for (const ReportItem& item : report.items) {
      if (relayed.contains(item.source))
        add(node, has_origin(item) ? item.bytes_from_storage : item.bytes_read,
            item.bytes_from_nodes);
    }
    if (node.from_storage == 0 && node.from_nodes == 0) continue;
    add(origin, node.from_storage, node.from_nodes);
    ++origin.nodes;
  }
  return origin;
}

std::string origin_text(const std::vector<NodeReport>& run) {
  if (!has_origin(run)) return "";
  const Origin origin = origin_of(run);
  const std::string nodes = counted(origin.nodes, "node", "nodes");
  const std::string read = "read from the file system: " + human_bytes(origin.from_storage);
  if (origin.from_nodes == 0) return read + " by " + nodes + "; nothing came from other nodes";
  return read + " of the " + human_bytes(more(origin.from_storage, origin.from_nodes)) + " that " +
         nodes + " staged; the rest came from other nodes";
}

namespace {

constexpr const char* k_stretches[] = {"queued", "staging", "others", "task",   "run",  "ending",
                                       "out",    "held",    "read",   "finish", "build"};
static_assert(std::size(k_stretches) == static_cast<std::size_t>(Stretch::build) + 1);

// The first of these moments that is known.
std::uint64_t first_known(std::initializer_list<std::uint64_t> moments) {
  for (const std::uint64_t moment : moments) {
    if (moment != 0) return moment;
  }
  return 0;
}

class Spans {
 public:
  void add(Stretch stretch, std::uint64_t from, std::uint64_t to) {
    if (from != 0 && to > from) spans_.push_back({stretch, from, to});
  }
  std::vector<Span> take() { return std::move(spans_); }

 private:
  std::vector<Span> spans_;
};

}  // namespace

const char* to_text(Stretch stretch) { return k_stretches[static_cast<std::size_t>(stretch)]; }

std::vector<Span> node_spans(const NodeReport& report) {
  const JobTimes& t = report.times;
  const std::uint64_t here =
      first_known({t.ended, t.gone, report.at});  // the end of what has not ended
  const std::uint64_t last = first_known({t.gone, report.at});
  Spans spans;
  spans.add(Stretch::queued, t.begun, first_known({t.staging, t.staged, here}));
  spans.add(Stretch::staging, t.staging, first_known({t.staged, here}));
  const bool waits = report.node_count > 1 && t.staged != 0;
  std::uint64_t decided = waits ? first_known({t.decided, t.run, here}) : t.staged;
  if (t.run != 0) decided = std::min(decided, t.run);  // a step that did not wait for the others
  if (waits) spans.add(Stretch::others, t.staged, decided);
  if (t.run != 0) spans.add(Stretch::first_task, std::max(t.staged, decided), t.run);
  spans.add(Stretch::run, t.run, here);
  spans.add(Stretch::ending, t.ended, first_known({t.out, t.held, last}));
  spans.add(Stretch::stage_out, t.out, first_known({t.held, t.out_end, last}));
  spans.add(Stretch::held, t.held, last);
  return spans.take();
}

std::vector<Span> item_spans(const NodeReport& report, const ReportItem& item) {
  const std::uint64_t end = first_known({item.ended, report.times.ended, report.at});
  // An item that has not ended may still be read.
  const std::uint64_t read = item.ended == 0 ? end : first_known({item.read_to, end});
  Spans spans;
  // The file of requirements is read at once; what follows is the installer's work.
  if (item.what == "requirements") {
    spans.add(Stretch::build, item.begun, end);
    return spans.take();
  }
  spans.add(Stretch::read, item.begun, read);
  spans.add(Stretch::finish, read, end);
  return spans.take();
}

std::vector<Span> output_spans(const NodeReport& report, const ReportItem& item) {
  Spans spans;
  spans.add(Stretch::stage_out, item.begun, first_known({item.ended, report.at}));
  return spans.take();
}

std::string push_text(const NodeReport& report, const ReportPush& push) {
  const auto passed = [](std::uint64_t from, std::uint64_t to) {
    return human_duration(to - std::min(from, to));
  };
  const std::string when = " at +" + passed(report.times.begun, push.ended);
  if (push.has_failed) return "the delivery failed" + when;
  return "delivered" + when + ": " + counted(push.files, "file", "files") + ", " +
         human_bytes(push.bytes_written) + " in " + passed(push.begun, push.ended);
}

std::string pushes_text(const NodeReport& report) {
  const bool is_one = report.pushes_in_all <= 1;
  return (is_one ? "one delivery" : human_count(report.pushes_in_all) + " deliveries") +
         " while the job ran" + (is_one ? ": " : "; the last: ") +
         push_text(report, report.pushes.back());
}

std::uint64_t total(const std::vector<Span>& spans, Stretch stretch) {
  std::uint64_t sum = 0;
  for (const Span& span : spans) {
    if (span.stretch == stretch) sum += span.length();
  }
  return sum;
}

std::uint64_t begin_of(const std::vector<NodeReport>& reports) {
  std::uint64_t begin = 0;
  for (const NodeReport& report : reports) {
    const std::uint64_t begun = report.times.begun;
    if (begun != 0 && (begin == 0 || begun < begin)) begin = begun;
  }
  return begin;
}

namespace {

constexpr std::size_t k_name_bytes = 48;
constexpr const char* k_no_time = "-";

std::string time_text(std::uint64_t ms) { return ms == 0 ? k_no_time : human_duration(ms); }

std::string offset(std::uint64_t moment, std::uint64_t begin) {
  return moment == 0 || begin == 0 || moment < begin ? k_no_time
                                                     : "+" + human_duration(moment - begin);
}

std::string nodes_part(const std::vector<NodeReport>& reports) {
  constexpr Stretch k_columns[] = {Stretch::queued, Stretch::staging,   Stretch::others,
                                   Stretch::run,    Stretch::stage_out, Stretch::held};
  Grid grid({"NODE", "STATE", "QUEUED", "STAGING", "OTHERS", "RUN", "STAGE-OUT", "HELD"}, 2);
  for (const NodeReport& report : reports) {
    const std::vector<Span> spans = node_spans(report);
    std::vector<std::string> row{report.node, report.state};
    for (const Stretch column : k_columns) row.push_back(time_text(total(spans, column)));
    grid.add(std::move(row));
  }
  return grid.text();
}

enum class Origins { hide, show };

void add_items(Grid& grid, const NodeReport& report, std::uint64_t begin, Origins origins) {
  const auto add = [&](const ReportItem& item, const std::string& name, std::uint64_t read,
                       std::uint64_t finish) {
    std::vector<std::string> row{report.node,
                                 shortened(name, k_name_bytes),
                                 state_text(item),
                                 offset(item.begun, begin),
                                 time_text(read),
                                 time_text(finish),
                                 has_figures(item) ? human_count(item.files) : k_no_time,
                                 has_figures(item) ? human_bytes(item.bytes_written) : k_no_time};
    if (origins == Origins::show) {
      row.push_back(has_origin(item) ? human_bytes(item.bytes_from_storage) : k_no_time);
      row.push_back(has_origin(item) ? human_bytes(item.bytes_from_nodes) : k_no_time);
    }
    grid.add(std::move(row));
  };
  for (const ReportItem& item : report.items) {
    const std::vector<Span> spans = item_spans(report, item);
    add(item, item_title(item.source, item.what), total(spans, Stretch::read),
        total(spans, Stretch::finish) + total(spans, Stretch::build));
  }
  for (const ReportItem& item : report.outputs) {
    const std::vector<Span> spans = output_spans(report, item);
    const char* task = report.times.out == 0 ? "push " : "stage-out ";
    add(item, task + item_title(item.source, item.what), total(spans, Stretch::stage_out), 0);
  }
}

// Returns the items of all nodes; "" if there are none.
std::string items_part(const std::vector<NodeReport>& reports, std::uint64_t begin) {
  const Origins origins = has_origin(reports) ? Origins::show : Origins::hide;
  std::vector<std::string> head{"NODE", "ITEM",   "STATE", "FROM",
                                "READ", "FINISH", "FILES", "WRITTEN"};
  if (origins == Origins::show) {
    head.emplace_back("FROM STORAGE");
    head.emplace_back("FROM NODES");
  }
  Grid grid(std::move(head), 3);
  bool has_items = false;
  for (const NodeReport& report : reports) {
    add_items(grid, report, begin, origins);
    has_items = has_items || !report.items.empty() || !report.outputs.empty();
  }
  return has_items ? grid.text() : "";
}

// Returns the causes of failures, and other notes.
std::string notes_part(const std::vector<NodeReport>& reports) {
  std::string text = origin_text(reports);
  if (!text.empty()) text += "\n";
  const auto add = [&text](const std::string& node, const std::string& what) {
    text += node + ": " + what + "\n";
  };
  for (const NodeReport& report : reports) {
    if (!report.cause.empty()) add(report.node, printable(report.cause, Newlines::join));
    for (const auto* items : {&report.items, &report.outputs}) {
      for (const ReportItem& item : *items) {
        const bool is_shown = report.cause.find(item.note) != std::string::npos;
        if (!is_shown) add(report.node, item_title(item.source, item.what) + ": " + item.note);
      }
    }
    if (!report.pushes.empty()) add(report.node, pushes_text(report));
    if (report.omitted != 0)
      add(report.node, human_count(report.omitted) + " more items did not fit into the record");
  }
  return text;
}

}  // namespace

std::string run_name(const NodeReport& report) {
  return "job " + std::to_string(report.job) +
         (report.restart == 0 ? "" : ", restart " + std::to_string(report.restart));
}

std::string state_text(const ReportItem& item) {
  return item.state + (item.is_async ? ", async" : "") + (item.is_optional ? ", optional" : "");
}

bool has_figures(const ReportItem& item) {
  const bool is_nothing = item.bytes_read == 0 && item.bytes_written == 0 && item.files == 0;
  return item.state != "done" || !is_nothing || item.note.empty();
}

std::string outcome_text(const std::vector<NodeReport>& run) {
  const std::string& outcome = run.front().outcome;
  std::string text = outcome == "success" ? "succeeded" : outcome == "failure" ? "failed" : "";
  const bool is_held = std::any_of(run.begin(), run.end(), [](const NodeReport& report) {
    return report.state == to_text(JobState::held);
  });
  if (is_held) text = (text.empty() ? "ended" : text) + ", but results are held";
  return text;
}

std::string report_table(const std::vector<NodeReport>& reports) {
  const std::uint64_t begin = begin_of(reports);
  const NodeReport& first = reports.front();
  const std::string outcome = outcome_text(reports);
  std::string text = run_name(first) + ", started " + human_date(begin / 1000) +
                     (outcome.empty() ? "" : ", " + outcome) + "\n\n" + nodes_part(reports);
  const std::string items = items_part(reports, begin);
  if (!items.empty()) text += "\n" + items;
  const std::string notes = notes_part(reports);
  return notes.empty() ? text : text + "\n" + notes;
}

}  // namespace nodestage
