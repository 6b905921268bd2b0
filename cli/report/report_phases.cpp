#include "cli/report/report_phases.hpp"

#include <algorithm>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr struct {
  const char* text;
  const char* name;
} k_names[k_stretches] = {
    {"queued", "queued"},
    {"staging", "staging"},
    {"waits for other nodes", "others"},
    {"before the first task", "task"},
    {"run", "run"},
    {"ending", "ending"},
    {"stage-out", "out"},
    {"held", "held"},
    {"read and extract", "read"},
    {"finish", "finish"},
    {"build", "build"},
};

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

const char* to_text(Stretch stretch) { return k_names[static_cast<std::size_t>(stretch)].text; }
const char* to_class(Stretch stretch) { return k_names[static_cast<std::size_t>(stretch)].name; }

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
  return "delivered" + when + ": " + human_count(push.files) +
         (push.files == 1 ? " file, " : " files, ") + human_bytes(push.bytes_written) + " in " +
         passed(push.begun, push.ended);
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

}  // namespace nodestage
