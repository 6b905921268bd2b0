// `nodestage report`: from reports to spans, table and page.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/report/report.hpp"
#include "tests/unit/sizes.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_begin = 1'700'000'000'000;

std::uint64_t s(std::uint64_t seconds) { return k_begin + seconds * 1000; }

ReportItem item(const std::string& source, std::uint64_t begun, std::uint64_t read_to,
                std::uint64_t ended) {
  ReportItem item{"done", false, false, "tar.gz", source, "/local/x", "", 1000, 2048, 3};
  item.begun = s(begun);
  item.read_to = s(read_to);
  item.ended = s(ended);
  return item;
}

NodeReport ended_report(const std::string& node, std::uint32_t index) {
  return {.job = 12,
          .node = node,
          .node_index = index,
          .node_count = 2,
          .state = "done",
          .outcome = "success",
          .at = s(4006),
          .times = {s(0), s(2), s(12), s(15), s(15), s(4000), s(4001), s(4005), 0, s(4006)},
          .items = {item("/p/data.tar.gz", 2, 10, 12)},
          .outputs = {item("results", 4001, 4003, 4005)}};
}

std::string text_of(const std::vector<Span>& spans) {
  std::string text;
  for (const Span& span : spans) {
    text += std::string(to_text(span.stretch)) + " " +
            std::to_string((span.from - k_begin) / 1000) + "-" +
            std::to_string((span.to - k_begin) / 1000) + "; ";
  }
  return text;
}

// The reports in the script element of a page, as a browser takes them: up to the first end tag.
std::string reports_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"reports\">";
  const std::size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script", at) - at);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace

TEST_CASE("the stretches of a node, of its items and its outputs") {
  const NodeReport report = ended_report("n1", 0);
  CHECK(text_of(node_spans(report)) ==
        "queued 0-2; staging 2-12; others 12-15; run 15-4000; ending 4000-4001; out 4001-4005; ");
  CHECK(text_of(item_spans(report, report.items[0])) == "read 2-10; finish 10-12; ");
  CHECK(text_of(output_spans(report, report.outputs[0])) == "out 4001-4005; ");
}

TEST_CASE("what an installer does is a build, and not the end of a read") {
  const NodeReport report = ended_report("n1", 0);
  ReportItem built = item("requirements.txt", 2, 2, 7);
  built.what = "requirements";
  CHECK(text_of(item_spans(report, built)) == "build 2-7; ");
}

TEST_CASE("what is in progress is drawn until now") {
  NodeReport report = ended_report("n1", 0);
  report.at = s(7);
  report.times = {s(0)};
  CHECK(text_of(node_spans(report)) == "queued 0-7; ");
  report.times.staging = s(2);
  report.items[0].ended = 0;
  report.items[0].read_to = s(4);
  CHECK(text_of(node_spans(report)) == "queued 0-2; staging 2-7; ");
  CHECK(text_of(item_spans(report, report.items[0])) == "read 2-7; ");
  report.times.staged = s(5);
  CHECK(text_of(node_spans(report)) == "queued 0-2; staging 2-5; others 5-7; ");
}

TEST_CASE("a task that comes later, a job that never ran, and results that are held") {
  NodeReport report = ended_report("n1", 0);
  report.times.run = s(20);
  CHECK(total(node_spans(report), Stretch::first_task) == 5000);
  report.times.run = s(13);  // it did not wait for the others
  CHECK(total(node_spans(report), Stretch::others) == 1000);
  CHECK(total(node_spans(report), Stretch::run) == 3'987'000);
  report.times = {s(0), s(1), s(3), s(3), 0, s(9), 0, 0, 0, s(9)};
  CHECK(text_of(node_spans(report)) == "queued 0-1; staging 1-3; ");
  report = ended_report("n1", 0);
  report.times.held = s(4005);
  report.times.out_end = s(9000);  // of the last try
  report.times.gone = 0;
  report.at = s(9500);
  CHECK(total(node_spans(report), Stretch::stage_out) == 4000);
  CHECK(total(node_spans(report), Stretch::held) == 5'495'000);
}

TEST_CASE("nothing is known of any time: no stretch") {
  const NodeReport report;
  CHECK(node_spans(report).empty());
  CHECK(begin_of({report}) == 0);
}

TEST_CASE("the JSON has the stretches of the node and of those items that did fit") {
  NodeReport report = ended_report("n1", 0);
  ReportItem built = item("requirements.txt", 2, 2, 7);
  built.what = "requirements";
  report.items.insert(report.items.begin(), built);
  nlohmann::json json = report_json(report);
  CHECK(json["spans"][1] == nlohmann::json{{"stretch", "staging"}, {"from", s(2)}, {"to", s(12)}});
  CHECK(json["spans"].size() == 6);
  CHECK(json["items"][0]["spans"][0]["stretch"] == "build");
  CHECK(json["items"][1]["spans"][1]["stretch"] == "finish");
  CHECK(json["outputs"][0]["spans"][0]["stretch"] == "out");
  REQUIRE(decode_report(json.dump()));
  CHECK(*decode_report(json.dump()) == report);
  report.items.assign(1000, item("data.tar", 2, 10, 12));
  report.items.back() = built;
  json = report_json(report);
  CHECK(json["omitted"] > 0);
  CHECK(json["items"].back()["spans"][0]["stretch"] == "read");
}

TEST_CASE("the report's table has a column for each node and the cause of a failure") {
  NodeReport other = ended_report("n2", 1);
  other.items[0].state = "failed";
  other.items[0].note = "damaged";
  other.state = "failed";
  other.cause = "why\nand what to do";
  const std::string table = report_table({ended_report("n1", 0), other});
  CHECK(table.find("job 12, started 2023-") == 0);
  CHECK(has(table, ", succeeded\n"));
  check_has(
      table,
      {"NODE  STATE   QUEUED  STAGING  OTHERS         RUN  STAGE-OUT  HELD\n",
       "n1    done     2.0 s   10.0 s   3.0 s  1 h 06 min      4.0 s     -\n",
       "n1    data.tar.gz (tar.gz)        done         +2.0 s  8.0 s   2.0 s      3  2.0 KiB\n",
       "n1    stage-out results (tar.gz)  done    +1 h 06 min  4.0 s       -      3  2.0 KiB",
       "n2: why; and what to do", "n2: data.tar.gz (tar.gz): damaged"});
}

TEST_CASE("an item that was there already has a note and no figures") {
  NodeReport report = ended_report("n1", 0);
  report.node_count = 1;
  report.outputs.clear();
  ReportItem& linked = report.items[0];
  linked.bytes_read = linked.bytes_written = linked.files = 0;
  linked.ended = linked.read_to = linked.begun;
  linked.note = "shared, already here (staged by job 7)";
  const std::string table = report_table({report});
  INFO(table);
  CHECK(has(table, "n1    data.tar.gz (tar.gz)  done   +2.0 s     -       -      -        -\n"));
  CHECK(has(table, "n1: data.tar.gz (tar.gz): shared, already here (staged by job 7)\n"));
  // An empty directory has figures.
  linked.note.clear();
  CHECK(has(report_table({report}), " 0 B\n"));
}

TEST_CASE("deliveries while the job ran: a mark for each, their number and the last one") {
  NodeReport report = ended_report("n1", 0);
  report.pushes = {{s(900), s(904), 2048, 3, false}, {s(1799), s(1800), 0, 0, true}};
  report.pushes_in_all = 70;
  const std::string words =
      "70 deliveries while the job ran; the last: the delivery failed at +30 min 00 s";
  const std::string table = report_table({report, ended_report("n2", 1)});
  INFO(table);
  CHECK(has(table, "\nn1: " + words + "\n"));
  CHECK_FALSE(has(table, "n2: "));
  report.pushes.resize(1);
  report.pushes_in_all = 1;
  CHECK(has(report_table({report}), "n1: one delivery while the job ran: delivered at +"));
  // Before the end, the outputs are those of the last push.
  report.times = {s(0), s(2), s(12), s(15), s(15)};
  CHECK(has(report_table({report}), "n1    push results (tar.gz)"));
}

TEST_CASE("what was read from the file system, and what came from nodes") {
  std::vector<NodeReport> run = {ended_report("n1", 0), ended_report("n2", 1),
                                 ended_report("n3", 2)};
  CHECK(origin_text(run).empty());
  CHECK_FALSE(has(report_table(run), "STORAGE"));
  for (NodeReport& report : run) {
    report.items[0].bytes_read = 12 * k_gib;
    report.items[0].bytes_from_nodes = 12 * k_gib;
    report.items.push_back(item("/p/small.tar.gz", 2, 3, 4));  // each node reads it
  }
  run[0].items[0].bytes_from_storage = 12 * k_gib;
  run[0].items[0].bytes_from_nodes = 0;
  const std::string words =
      "read from the file system: 12.0 GiB of the 36.0 GiB that 3 nodes staged; the rest came from "
      "other nodes";
  CHECK(origin_text(run) == words);
  const std::string table = report_table(run);
  INFO(table);
  check_has(table, {"READ  FINISH  FILES  WRITTEN  FROM STORAGE  FROM NODES\n",
                    "8.0 s   2.0 s      3  2.0 KiB      12.0 GiB         0 B\n",
                    "8.0 s   2.0 s      3  2.0 KiB           0 B    12.0 GiB\n",
                    "1.0 s   1.0 s      3  2.0 KiB             -           -\n"});
  CHECK(has(table, "\n\n" + words + "\n"));
  CHECK(has(report_page({run}), " · " + words + "</p>"));

  // A node that passes nothing on has read the same source for itself.
  run[2].items[0].bytes_from_nodes = 0;
  CHECK(has(origin_text(run), "24.0 GiB of the 36.0 GiB that 3 nodes"));
  // A node whose staging has not begun counts for nothing.
  run[2].items[0].bytes_read = 0;
  CHECK(has(origin_text(run), "12.0 GiB of the 24.0 GiB that 2 nodes"));
  run[1] = run[0];
  CHECK(origin_text(run) ==
        "read from the file system: 24.0 GiB by 2 nodes; nothing came from other nodes");
}

TEST_CASE("hostile names become text in the page, and nothing else") {
  NodeReport report = ended_report("<script>", 0);
  const std::string evil =
      "/p/</noscript></pre></section><script src=\"http://x/\">alert(1)</script>\"'&lt;]]><!--"
      "<!-- <script>{{reports}}\x1b\x01\xff\xef\xbf\xbe\xef\xbf\xbf\xe2\x80\xa8\xe2\x80\xae";
  report.state = report.cause = evil;
  report.items[0].source = report.items[0].destination = report.items[0].what = evil;
  report.items[0].note = report.items[0].state = evil;
  const std::string page = report_page({{report}});
  const std::string plain = report_page({{ended_report("n1", 0)}});
  for (const std::string markup :
       {"<script", "</script", "<!--", "<noscript", "</noscript", "</pre", "<section", "</section"})
    CHECK_MESSAGE(count_of(page, markup) == count_of(plain, markup), markup);
  const auto reports = nlohmann::json::parse(reports_of(page), nullptr, false);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0] == report_json(report));
  CHECK(has(page, "&lt;script src="));  // in the table for browsers without JavaScript
}

TEST_CASE(
    "a page has one script, the texts that its template names, and takes nothing from elsewhere") {
  const std::string page = report_page({{ended_report("n1", 0), ended_report("n2", 1)}});
  check_has(page, {"<title>nodestage report: job 12</title>", "default-src 'none'",
                   "<h1>job 12</h1><p>started 2023-", " · 2 nodes · the job succeeded</p>",
                   report_table({ended_report("n1", 0), ended_report("n2", 1)}) + "</pre>"});
  for (const char* absent : {"{{", "innerHTML", "url(", "@import", "src=", "href=", "<link"})
    CHECK_FALSE(has(page, absent));
  // Names of languages, not places.
  for (std::size_t at = page.find("http:"); at != std::string::npos;
       at = page.find("http:", at + 1))
    CHECK(page.compare(at, 18, "http://www.w3.org/") == 0);
  CHECK_FALSE(has(page, "https:"));
}

TEST_CASE(
    "a page shows no character that changes the order of its text, and neither does a table") {
  NodeReport report = ended_report("n1", 0);
  report.items[0].source = "/p/\xe2\x80\xaerat.gpj";
  report.items[0].note = "\xe2\x81\xa7note";
  report.cause = "\xe2\x80\x8f";
  const auto read = must(decode_report(encode_report(report)));
  for (const std::string& text : {report_page({{read}}), report_table({read})}) {
    CHECK(has(text, "\\xe2\\x80\\xaerat.gpj"));
    for (const char* mark : {"\xe2\x80\xae", "\xe2\x81\xa7", "\xe2\x80\x8f"})
      CHECK_FALSE(has(text, mark));
  }
  CHECK_FALSE(has(report_page({{report}}), "\xe2\x80\xae"));
}
