// What the table and the page of `nodestage report` show of a report: stretches of time. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

enum class Stretch {
  queued,      // the job had begun, its staging had not
  staging,     // from the worker's start to ready here, or failed
  others,      // ready here; other nodes of the job were not
  first_task,  // all were ready; no task had come yet
  run,         // from the first task to the epilog
  ending,      // from the epilog to the stage-out
  stage_out,
  held,    // results could not be delivered
  read,    // of an item: to the last byte of its source; extracting goes on beside
  finish,  // of an item: from there to its end
};
inline constexpr std::size_t k_stretches = 10;

const char* to_text(Stretch stretch);   // "waits for other nodes", for people
const char* to_class(Stretch stretch);  // one word

struct Span {
  Stretch stretch = Stretch::queued;
  std::uint64_t from = 0;  // milliseconds since 1970
  std::uint64_t to = 0;    // not before `from`

  [[nodiscard]] std::uint64_t length() const { return to - from; }
};

// In order; only those that took time. What is under way ends at report.at.
std::vector<Span> node_spans(const NodeReport& report);
std::vector<Span> item_spans(const NodeReport& report, const ReportItem& item);
std::vector<Span> output_spans(const NodeReport& report, const ReportItem& item);

// Of all spans of a kind.
std::uint64_t total(const std::vector<Span>& spans, Stretch stretch);

// The earliest begin of all, 0 when none is known.
std::uint64_t begin_of(const std::vector<NodeReport>& reports);

}  // namespace nodestage
