#include "cli/report/report_waterfall.hpp"

#include <algorithm>
#include <cstdio>

#include "cli/report/report_page.hpp"
#include "cli/report/report_table.hpp"
#include "cli/report/time_scale.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// The drawing's units; the page scales it to its own width.
constexpr double k_axis = 34;  // height of the head
constexpr double k_row = 20;
constexpr double k_node_row = 26;
constexpr double k_node_gap = 8;
constexpr double k_least_bar = 2;
constexpr double k_least_labelled = 70;
constexpr double k_mark = 5;  // half of its width
constexpr double k_letter = 7;

// Names to the left of the bars, and words to their right; or, on a narrow page, both above them.
struct Layout {
  const char* style;
  double width;
  double names;  // of the column of names
  double words;  // of the column to the right of the bars
  double above;  // height of names and words above the bars
  std::size_t name_characters;
  std::size_t word_characters;

  [[nodiscard]] double bars() const { return width - names - words; }
};
constexpr Layout k_broad{"broad", 1160, 250, 150, 0, 34, 22};
constexpr Layout k_narrow{"narrow", 420, 34, 34, 16, 30, 22};

// Returns the first `count` characters of printable text.
std::string cut(const std::string& text, std::size_t count) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (characters++ == count) return text.substr(0, i) + "…";
  }
  return text;
}

std::string formatted(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

TimeScale scale_of(const std::vector<NodeReport>& run, double width) {
  std::vector<TimeScale::Interval> seen;
  for (const NodeReport& report : run) {
    for (const Span& span : node_spans(report)) {
      const bool may_be_folded = span.stretch == Stretch::run ||
                                 span.stretch == Stretch::first_task ||
                                 span.stretch == Stretch::held;
      if (may_be_folded) {
        seen.push_back({span.from, span.from});
        seen.push_back({span.to, span.to});
      } else {
        seen.push_back({span.from, span.to});
      }
    }
    for (const ReportItem& item : report.items) {
      for (const Span& span : item_spans(report, item)) seen.push_back({span.from, span.to});
    }
    for (const ReportItem& item : report.outputs) {
      for (const Span& span : output_spans(report, item)) seen.push_back({span.from, span.to});
    }
  }
  return {std::move(seen), width};
}

class Waterfall {
 public:
  Waterfall(const std::vector<NodeReport>& run, const Layout& layout)
      : at_(layout), scale_(scale_of(run, layout.bars())) {
    for (const NodeReport& report : run) add(report);
  }

  [[nodiscard]] std::string text() const {
    return formatted(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" class=\"%s\" "
               "viewBox=\"0 0 %.0f %.0f\"><title>What happened when</title>\n",
               at_.style, at_.width, y_ + 6) +
           bands_ + head() + rows_ + "</svg>\n";
  }

 private:
  // Grid and axis, as high as the rows.
  [[nodiscard]] std::string head() const {
    std::string text;
    double taken = 0;  // by durations, up to there
    for (const TimeScale::Piece& piece : scale_.pieces()) {
      if (!piece.is_folded) continue;
      const double left = at_.names + piece.left;
      const double right = left + piece.width;
      const std::string duration = human_duration(piece.to - piece.from);
      text +=
          formatted("<rect class=\"fold\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%.0f\">",
                    left, k_axis, piece.width, y_ - k_axis) +
          title(duration) + "</rect>";
      for (const double x : {left, right}) {
        text += formatted("<line class=\"edge\" x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\"/>",
                          x, k_axis - 6, x, y_);
      }
      const double half = k_letter * static_cast<double>(duration.size()) / 2;
      const double middle = std::clamp((left + right) / 2, half, at_.width - half);
      // Of two that would overlap, the first one is shown; the drawing is the same.
      if (middle - half < taken) continue;
      taken = middle + half;
      text += formatted("<text class=\"dim\" text-anchor=\"middle\" x=\"%.1f\" y=\"12\">", middle) +
              duration + "</text>\n";
    }
    for (const TimeScale::Tick& tick : scale_.ticks()) {
      const double x = at_.names + tick.at;
      text += formatted(
                  "<line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\"/>"
                  "<text class=\"dim\" text-anchor=\"middle\" x=\"%.1f\" y=\"26\">",
                  x, k_axis - 4, x, y_, x) +
              tick.text + "</text>\n";
    }
    return text;
  }

  void add(const NodeReport& report) {
    bands_ +=
        formatted("<rect class=\"band\" x=\"0\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\"/>\n", y_,
                  at_.width, at_.above + k_node_row);
    row({report.node, "name", report.node}, node_spans(report), k_node_row,
        {report.state, report.cause, report.state == "failed" || report.state == "held"});
    add_pushes(report);
    for (const ReportItem& item : report.items) add(item, "", item_spans(report, item));
    for (const ReportItem& item : report.outputs) add(item, "↑ ", output_spans(report, item));
    y_ += k_node_gap;
  }

  // Marks on the bar of the node, whose row is the last one.
  void add_pushes(const NodeReport& report) {
    for (const ReportPush& push : report.pushes) {
      const double x = std::clamp(at_.names + scale_.at(push.ended), at_.names + k_mark,
                                  at_.names + at_.bars() - k_mark);
      rows_ += formatted("<path class=\"push%s\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\">",
                         push.has_failed ? " failed" : "", x, y_ - k_node_row / 2 - k_mark, k_mark,
                         k_mark, -k_mark, k_mark, -k_mark, -k_mark) +
               title(push_text(report, push)) + "</path>\n";
    }
  }

  void add(const ReportItem& item, const std::string& mark, const std::vector<Span>& spans) {
    std::uint64_t spent = 0;
    for (const Span& span : spans) spent += span.length();
    std::string words = state_text(item);
    if (!has_figures(item))
      words = item.note;
    else if (item.state == "done")
      words = human_duration(spent) + ", " + human_bytes(item.bytes_written);
    row({mark + item_title(item.source, item.what), "item", item.source + " → " + item.destination},
        spans, k_row, {words, item.note, item.state == "failed"});
  }

  struct Name {
    std::string text;
    const char* style;
    std::string full;
  };
  struct Words {
    std::string text;
    std::string full;
    bool is_bad;
  };
  void row(const Name& name, const std::vector<Span>& spans, double height, const Words& words) {
    const double base = y_ + (at_.above == 0 ? height / 2 + 4 : at_.above - 3);
    const bool is_name = name.style == std::string("name");
    const double left = at_.above == 0 && !is_name ? 18 : 6;
    rows_ += formatted("<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">", name.style, left, base) +
             title(name.full) + markup(cut(name.text, at_.name_characters)) + "</text>";
    y_ += at_.above;
    for (const Span& span : spans) rows_ += bar(span, height, words);
    rows_ += at_.above == 0
                 ? formatted("<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">",
                             words.is_bad ? "bad" : "dim", at_.names + at_.bars() + 8, base)
                 : formatted(
                       "<text class=\"%s\" text-anchor=\"end\" x=\"%.0f\" "
                       "y=\"%.0f\">",
                       words.is_bad ? "bad" : "dim", at_.width - 6, base);
    rows_ += title(words.full) + markup(cut(words.text, at_.word_characters)) + "</text>\n";
    y_ += height;
  }

  // Marks a failed item. A node's bar contains its duration if there is space.
  [[nodiscard]] std::string bar(const Span& span, double height, const Words& words) const {
    const bool is_node = height == k_node_row;
    const double left = scale_.at(span.from);
    const double width = std::max(scale_.at(span.to) - left, k_least_bar);
    const double x = std::min(at_.names + left, at_.names + at_.bars() - width);
    const std::string duration = human_duration(span.length());
    std::string text =
        formatted("<rect class=\"%s%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">",
                  to_class(span.stretch), words.is_bad && !is_node ? " failed" : "", x, y_ + 4,
                  width, height - 8);
    text += title(std::string(to_text(span.stretch)) + ": " + duration) + "</rect>";
    if (is_node && width > k_least_labelled) {
      text += formatted("<text class=\"on\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.0f\">",
                        x + width / 2, y_ + height / 2 + 4) +
              duration + "</text>";
    }
    return text;
  }

  static std::string title(const std::string& text) {
    return text.empty() ? "" : "<title>" + markup(text) + "</title>";
  }

  const Layout& at_;
  TimeScale scale_;
  double y_ = k_axis;
  std::string bands_;
  std::string rows_;
};

}  // namespace

std::string waterfall(const std::vector<NodeReport>& run) {
  return Waterfall(run, k_broad).text() + Waterfall(run, k_narrow).text();
}

}  // namespace nodestage
