#include "cli/report/report_page.hpp"

#include "cli/report/report_table.hpp"
#include "cli/report/report_waterfall.hpp"
#include "common/build_info.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr const char* k_style = R"(
:root { color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --dim: #59636e; --line: #d8dee4; --band: #f4f6f8; --bad: #c4222f; --on: #111111;
  --queued: #aab3bd; --staging: #c3d9f5; --others: #e8a33d; --task: #d5c9a6; --run: #7fc795;
  --ending: #b9b2c4; --out: #8a63d2; --held: #d1453b; --read: #2f77d0; --finish: #26a3a3; --build: #c06fa8; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171b; --ink: #e6e9ed; --dim: #98a2ad; --line: #343b43; --band: #1c2127; --bad: #ff7b72; --on: #ffffff;
  --queued: #5c6670; --staging: #27466e; --others: #c98526; --task: #6f6542; --run: #34804b;
  --ending: #5e566e; --out: #7d5bd0; --held: #c8433b; --read: #4f97ec; --finish: #34b8b8; --build: #b2649a; } }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 3rem; background: var(--page);
  color: var(--ink); font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.45rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p { margin: .2rem 0 .8rem; color: var(--dim); } .bad { color: var(--bad); }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, "DejaVu Sans", sans-serif; }
svg text:not(.on) { paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
svg text { fill: var(--ink); } svg .dim { fill: var(--dim); } svg .bad { fill: var(--bad); }
svg .on { fill: var(--on); font-size: 11px; }
svg .name { font-weight: 600; } svg .band { fill: var(--band); }
svg line { stroke: var(--line); } svg .fold { fill: var(--band); stroke: none; }
svg .edge { stroke: var(--dim); stroke-dasharray: 3 3; }
svg .failed { stroke: var(--bad); stroke-width: 2; }
.queued { fill: var(--queued); } .staging { fill: var(--staging); } .others { fill: var(--others); }
.task { fill: var(--task); } .run { fill: var(--run); } .ending { fill: var(--ending); }
.out { fill: var(--out); } .held { fill: var(--held); } .read { fill: var(--read); }
.finish { fill: var(--finish); } .build { fill: var(--build); }
.push { fill: var(--out); stroke: var(--page); stroke-width: 1; } svg .push.failed { fill: var(--bad); stroke: var(--page); }
ul.key { list-style: none; padding: 0; margin: .6rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
ul.key svg { display: inline-block; width: 12px; height: 12px; margin-right: .4em; vertical-align: -1px; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; width: 100%; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 600; overflow-wrap: normal; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
svg.narrow { display: none; }
@media (max-width: 62rem) {
  svg.broad, thead { display: none; } svg.narrow { display: block; max-width: 38rem; }
  table, tbody, tr, td, td.n { display: block; text-align: left; white-space: normal; }
  tr { border-top: 1px solid var(--line); padding: .4rem 0; }
  td, td.n { border: none; padding: .1rem 0; display: flex; gap: .8rem; }
  td::before { content: attr(data-name); flex: 0 0 8.5rem; color: var(--dim); }
  td span { min-width: 0; } td.none { display: none; } td.first { font-weight: 600; } }
)";

constexpr const char* k_none = "–";

std::string duration(std::uint64_t ms) { return ms == 0 ? k_none : human_duration(ms); }

class Table {
 public:
  enum class Kind { text, number };
  struct Column {
    const char* name;
    Kind kind;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {
    text_ = "<div class=\"wide\"><table><thead><tr>";
    for (const Column& column : columns_) {
      text_ += std::string("<th") + (column.kind == Kind::number ? " class=\"n\">" : ">") +
               column.name + "</th>";
    }
    text_ += "</tr></thead><tbody>\n";
  }
  void add(const std::vector<std::string>& cells) {
    text_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::string style = columns_[i].kind == Kind::number ? "n" : "t";
      if (i == 0) style += " first";
      if (cells[i].empty() || cells[i] == k_none) style += " none";
      text_ += "<td class=\"" + style + "\" data-name=\"" + columns_[i].name + "\"><span>" +
               markup(cells[i]) + "</span></td>";
    }
    text_ += "</tr>\n";
  }
  [[nodiscard]] std::string text() const { return text_ + "</tbody></table></div>\n"; }

 private:
  std::vector<Column> columns_;
  std::string text_;
};

constexpr Table::Kind k_text = Table::Kind::text;
constexpr Table::Kind k_number = Table::Kind::number;

std::string nodes_table(const std::vector<NodeReport>& run) {
  constexpr Stretch k_columns[] = {Stretch::queued, Stretch::staging,   Stretch::others,
                                   Stretch::run,    Stretch::stage_out, Stretch::held};
  Table table({{"node", k_text},
               {"state", k_text},
               {"queued", k_number},
               {"staging", k_number},
               {"waits for others", k_number},
               {"run", k_number},
               {"stage-out", k_number},
               {"held", k_number},
               {"note", k_text}});
  for (const NodeReport& report : run) {
    const std::vector<Span> spans = node_spans(report);
    std::vector<std::string> row{report.node, report.state};
    for (const Stretch column : k_columns) row.push_back(duration(total(spans, column)));
    std::string note = report.cause;
    if (!report.pushes.empty()) note += (note.empty() ? "" : "; ") + pushes_text(report);
    row.push_back(note);
    table.add(row);
  }
  return table.text();
}

std::string items_table(const std::vector<NodeReport>& run) {
  const std::uint64_t begin = begin_of(run);
  const bool shows_origin = has_origin(run);
  std::vector<Table::Column> columns{
      {"node", k_text},    {"item", k_text},     {"destination", k_text}, {"state", k_text},
      {"from", k_number},  {"read", k_number},   {"finish", k_number},    {"build", k_number},
      {"files", k_number}, {"written", k_number}};
  if (shows_origin)
    columns.insert(columns.end(), {{"from storage", k_number}, {"from nodes", k_number}});
  columns.push_back({"note", k_text});
  Table table(std::move(columns));
  const auto add = [&](const NodeReport& report, const ReportItem& item, std::uint64_t read,
                       const std::vector<Span>& spans) {
    const bool has_begun = item.begun != 0 && item.begun >= begin;
    std::vector<std::string> row{report.node,
                                 item.source + (item.what.empty() ? "" : " (" + item.what + ")"),
                                 item.destination,
                                 state_text(item),
                                 has_begun ? "+" + human_duration(item.begun - begin) : k_none,
                                 duration(read),
                                 duration(total(spans, Stretch::finish)),
                                 duration(total(spans, Stretch::build)),
                                 has_figures(item) ? human_count(item.files) : k_none,
                                 has_figures(item) ? human_bytes(item.bytes_written) : k_none};
    if (shows_origin) {
      row.push_back(has_origin(item) ? human_bytes(item.bytes_from_storage) : k_none);
      row.push_back(has_origin(item) ? human_bytes(item.bytes_from_nodes) : k_none);
    }
    row.push_back(item.note);
    table.add(row);
  };
  for (const NodeReport& report : run) {
    for (const ReportItem& item : report.items) {
      const std::vector<Span> spans = item_spans(report, item);
      add(report, item, total(spans, Stretch::read), spans);
    }
    for (const ReportItem& item : report.outputs)
      add(report, item, total(output_spans(report, item), Stretch::stage_out), {});
  }
  return table.text();
}

std::string key_of_colours() {
  std::string text = "<ul class=\"key\">";
  for (std::size_t i = 0; i < k_stretches; ++i) {
    const auto stretch = static_cast<Stretch>(i);
    text += std::string(
                "<li><svg viewBox=\"0 0 12 12\"><rect width=\"12\" height=\"12\" rx=\"2\" "
                "class=\"") +
            to_class(stretch) + "\"/></svg>" + to_text(stretch) + "</li>";
  }
  return text +
         "<li><svg viewBox=\"0 0 12 12\"><path class=\"push\" d=\"M6 1l5 5l-5 5l-5 -5z\"/></svg>"
         "a delivery while the job ran</li></ul>\n";
}

std::string section(const std::vector<NodeReport>& run) {
  const NodeReport& first = run.front();
  const std::uint64_t begin = begin_of(run);
  const std::string outcome = outcome_text(run);
  const std::string nodes =
      human_count(run.size()) + (first.node_count > run.size()
                                     ? " of " + human_count(first.node_count) + " nodes"
                                     : (run.size() == 1 ? " node" : " nodes"));
  const std::string origin = origin_text(run);
  return "<section><h1>" + markup(run_name(first)) + "</h1><p>started " + human_date(begin / 1000) +
         " · " + nodes + (outcome.empty() ? "" : " · the job " + outcome) +
         (origin.empty() ? "" : " · " + markup(origin)) + "</p>\n" + waterfall(run) +
         key_of_colours() + "<h2>Nodes</h2>\n" + nodes_table(run) + "<h2>Items</h2>\n" +
         items_table(run) + "</section>\n";
}

}  // namespace

std::string markup(const std::string& text) {
  std::string result;
  const std::string shown = printable(text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    switch (shown[i]) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '\xef':  // U+FFFE and U+FFFF are EF BF BE and EF BF BF
        if (shown.compare(i, 3, "\xef\xbf\xbe") == 0 || shown.compare(i, 3, "\xef\xbf\xbf") == 0) {
          result += "\xef\xbf\xbd";
          i += 2;
          break;
        }
        [[fallthrough]];
      default:
        result += shown[i];
    }
  }
  return result;
}

std::string report_page(const std::vector<std::vector<NodeReport>>& runs) {
  const NodeReport& first = runs.front().front();
  std::string page =
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>"
      "<meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>nodestage "
      "report: job " +
      std::to_string(first.job) + "</title><style>" + k_style + "</style></head><body>\n";
  for (const auto& run : runs) page += section(run);
  return page + "<p>Times are by each node's own clock. nodestage " + markup(k_version) +
         "</p></body></html>\n";
}

}  // namespace nodestage
