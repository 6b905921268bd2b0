#include <string_view>

#include "cli/report/report.hpp"
#include "cli/report/report_html.hpp"
#include "common/build_info.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

using Json = nlohmann::json;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// For the content of an element.
std::string escaped(const std::string& text) {
  const std::string shown = printable(text, Newlines::keep);
  return replaced(replaced(replaced(shown, "&", "&amp;"), "<", "&lt;"), ">", "&gt;");
}

// For the content of a <script>: a "<" of JSON is always within a string.
std::string script_text(const Json& json) {
  return replaced(json.dump(-1, ' ', false, Json::error_handler_t::replace), "<", "\\u003c");
}

void make_printable(Json& json) {
  if (json.is_string()) json = printable(json.get<std::string>(), Newlines::keep);
  if (!json.is_structured()) return;
  for (Json& member : json) make_printable(member);
}

Json to_json(const std::vector<Span>& spans) {
  Json list = Json::array();
  for (const Span& span : spans)
    list.push_back({{"stretch", to_text(span.stretch)}, {"from", span.from}, {"to", span.to}});
  return list;
}

std::string section(const std::vector<NodeReport>& run) {
  const NodeReport& first = run.front();
  std::string about =
      "started " + human_date(begin_of(run) / 1000) + " · " + human_count(run.size());
  if (first.node_count > run.size()) about += " of " + human_count(first.node_count);
  about += first.node_count <= 1 && run.size() == 1 ? " node" : " nodes";
  const std::string outcome = outcome_text(run);
  if (!outcome.empty()) about += " · the job " + outcome;
  const std::string origin = origin_text(run);
  if (!origin.empty()) about += " · " + origin;
  return "<section><h1>" + escaped(run_name(first)) + "</h1><p>" + escaped(about) +
         "</p>\n<noscript><p>JavaScript, which draws the picture, is off in this browser. This is "
         "the "
         "table of nodestage report.</p>\n<pre>" +
         escaped(report_table(run)) + "</pre></noscript></section>\n";
}

}  // namespace

Json report_json(const NodeReport& report) {
  const std::string text = encode_report(report);
  Json json = Json::parse(text);
  make_printable(json);
  const NodeReport shown = decode_report(text).value();  // only with the items that did fit
  json["spans"] = to_json(node_spans(shown));
  for (std::size_t i = 0; i < shown.items.size(); ++i)
    json["items"][i]["spans"] = to_json(item_spans(shown, shown.items[i]));
  for (std::size_t i = 0; i < shown.outputs.size(); ++i)
    json["outputs"][i]["spans"] = to_json(output_spans(shown, shown.outputs[i]));
  return json;
}

std::string report_page(const std::vector<std::vector<NodeReport>>& runs) {
  std::string sections;
  Json reports = Json::array();
  for (const auto& run : runs) {
    sections += section(run);
    for (const NodeReport& report : run) reports.push_back(report_json(report));
  }
  // In the order of the file.
  const std::pair<std::string_view, std::string> texts[] = {
      {"{{title}}", "job " + std::to_string(runs.front().front().job)},
      {"{{sections}}", sections},
      {"{{version}}", escaped(k_version)},
      {"{{reports}}", script_text(reports)}};
  std::string page;
  std::string_view rest = k_report_html;
  for (const auto& [name, text] : texts) {
    const std::size_t at = rest.find(name);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + name.size());
  }
  return page.append(rest);
}

}  // namespace nodestage
