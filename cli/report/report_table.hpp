// The text of `nodestage report`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// Sums how much of a job's sources came from their file system, and how much from its other nodes.
// Pure.

// Returns whether the item was to be relayed, so that it is known where its bytes came from.
bool has_origin(const ReportItem& item);
bool has_origin(const std::vector<NodeReport>& run);

// The sums of one run, over every source that was relayed on any node. A node that passes nothing
// on, such as one with an earlier release, has read what it staged of them from the file system.
struct Origin {
  std::uint64_t from_storage = 0;  // bytes
  std::uint64_t from_nodes = 0;
  std::size_t nodes = 0;  // that staged any of these sources
};
Origin origin_of(const std::vector<NodeReport>& run);

// Returns a sentence without its end; "" if nothing was to be relayed.
std::string origin_text(const std::vector<NodeReport>& run);

// The stretches of time that the table and the page of `nodestage report` show. Pure.
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

const char* to_text(Stretch stretch);  // one word, for JSON and the page

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

// `reports` are one run's, sorted by node. Times are relative to the first node's start.
std::string report_table(const std::vector<NodeReport>& reports);

// Returns "job 12, restart 1".
std::string run_name(const NodeReport& report);

// Returns a text such as "failed, optional".
std::string state_text(const ReportItem& item);

// Returns false for an item for which nothing had to be staged, as its note says: it was shared and
// there already, for example.
bool has_figures(const ReportItem& item);

// Returns "succeeded", "failed", or "" while that is not known.
std::string outcome_text(const std::vector<NodeReport>& run);

}  // namespace nodestage
