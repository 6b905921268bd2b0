// NodeReport: the times and items of one run of a job on one node, as the node's daemon reports and
// keeps them (for `nodestage report`).
//
//   JSON, version 1, at most k_max_report_bytes, UTF-8: the keys are the members' names; the
//   elements of "items", "outputs", and "pushes" are objects. Items that do not fit are omitted and
//   counted in "omitted".
//
// Times are milliseconds since 1970 by that node's clock; 0: has not happened. Texts are printable.
// The numbers and texts of items are claims of the user's worker; their times lie within the job's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_report_bytes = 64 * 1024;

struct JobTimes {
  std::uint64_t begun = 0;    // the prolog announced the job
  std::uint64_t staging = 0;  // the worker was started
  std::uint64_t staged = 0;   // staging was ready here, or failed
  std::uint64_t decided = 0;  // with several nodes: all were ready, or one had failed
  std::uint64_t run = 0;      // the first task started
  std::uint64_t ended = 0;    // the epilog announced the end
  std::uint64_t out = 0;      // the first stage-out started
  std::uint64_t out_end = 0;  // the last stage-out ended
  std::uint64_t held = 0;     // results were held for the first time
  std::uint64_t gone = 0;     // nothing of the job was left on the node

  bool operator==(const JobTimes&) const = default;
};

struct ReportItem {
  std::string state;  // waiting, working, done, failed, skipped
  bool is_async = false;
  bool is_optional = false;
  std::string what;
  std::string source;
  std::string destination;
  std::string note;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t files = 0;
  std::uint64_t bytes_from_storage = 0;  // with a relay: read from the source's file system,
  std::uint64_t bytes_from_nodes = 0;    // and received from other nodes of the job
  std::uint64_t begun = 0;
  std::uint64_t read_to = 0;  // when the last byte of the source was read
  std::uint64_t ended = 0;

  bool operator==(const ReportItem&) const = default;
};

// One delivery of results while the job ran.
struct ReportPush {
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t files = 0;
  bool has_failed = false;

  bool operator==(const ReportPush&) const = default;
};
inline constexpr std::size_t k_max_report_pushes = 64;

// For JSON: a report's, and the daemon's journal's.
void each_field(Is<ReportPush> auto& push, auto field) {
  field("begun", push.begun);
  field("ended", push.ended);
  field("bytes_written", push.bytes_written);
  field("files", push.files);
  field("has_failed", push.has_failed);
}

struct NodeReport {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  std::uint32_t uid = 0;
  std::string node;
  std::uint32_t node_index = 0;
  std::uint32_t node_count = 1;
  std::string state;
  std::string outcome;   // of the job's own work: success, failure, unknown
  std::string cause;     // why its staging failed, or why results are held
  std::uint64_t at = 0;  // the time of this report
  JobTimes times;
  std::vector<ReportItem> items;    // of the staging
  std::vector<ReportItem> outputs;  // of the last stage-out; before that, of the last push
  std::vector<ReportPush> pushes;   // the latest k_max_report_pushes
  std::uint32_t pushes_in_all = 0;
  std::uint32_t omitted = 0;

  bool operator==(const NodeReport&) const = default;
};

// Bounds a worker's claims: shortens texts and makes them printable, and moves times other than 0
// into [from, to].
ReportItem report_item(const ItemRecord& record, std::uint64_t from, std::uint64_t to);

// One line, without the newline.
std::string encode_report(NodeReport report);
// A fault if `json` is not a report. It can come from a process of the job's user: texts become
// short and printable, numbers and times at most k_largest_claim.
Result<NodeReport> decode_report(std::string_view json);

}  // namespace nodestage
