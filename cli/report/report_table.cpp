#include "cli/report/report_table.hpp"

#include <algorithm>

#include "cli/base/grid.hpp"
#include "cli/report/report_origin.hpp"
#include "cli/report/report_phases.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/wire/job_state.hpp"

namespace nodestage {
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
