// The stretches of time that the table and the page of `nodestage report` show. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

enum class Stretch {
  queued,      // the job had started, but not its staging
  staging,     // from the worker's start to ready here, or failed
  others,      // ready here, but not on other nodes of the job
  first_task,  // all nodes were ready; no task had started yet
  run,         // from the first task to the epilog
  ending,      // from the epilog to the stage-out
  stage_out,
  held,    // results could not be delivered
  read,    // of an item: until the last byte of its source is read; extracts meanwhile
  finish,  // of an item: from then to its end
  build,   // of an environment that an installer makes
};
inline constexpr std::size_t k_stretches = 11;

const char* to_text(Stretch stretch);   // "waits for other nodes", for people
const char* to_class(Stretch stretch);  // one word

struct Span {
  Stretch stretch = Stretch::queued;
  std::uint64_t from = 0;  // milliseconds since 1970
  std::uint64_t to = 0;    // not before `from`

  [[nodiscard]] std::uint64_t length() const { return to - from; }
};

// Returns them in order, without empty ones. One that has not ended ends at report.at.
std::vector<Span> node_spans(const NodeReport& report);
std::vector<Span> item_spans(const NodeReport& report, const ReportItem& item);
std::vector<Span> output_spans(const NodeReport& report, const ReportItem& item);

// Returns "delivered at +1 h 06 min: 3 files, 2.0 KiB in 4.0 s".
std::string push_text(const NodeReport& report, const ReportPush& push);
// Returns "3 deliveries while the job ran; the last: delivered at ..." for one or more.
std::string pushes_text(const NodeReport& report);

// Returns the total length of all spans of this kind, in milliseconds.
std::uint64_t total(const std::vector<Span>& spans, Stretch stretch);

// Returns the earliest start in all reports; 0 if none is known.
std::uint64_t begin_of(const std::vector<NodeReport>& reports);

}  // namespace nodestage
