// NodeReport: when what happened in one run of a job on one node, as the node's daemon tells it
// and keeps it (`nodestage report`).
//
//   JSON, version 1, k_max_report_bytes at most, UTF-8: the keys are the members' names; the items
//   of "items" and "outputs" are objects. What does not fit is left out, and counted in "omitted".
//
// Times are milliseconds since 1970 by the clock of that node; 0: not (yet). Texts are printable.
// The numbers and texts of items are claims of the user's worker; their times lie within the job's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_report_bytes = 64 * 1024;

struct JobTimes {
  std::uint64_t begun = 0;    // the prolog came
  std::uint64_t staging = 0;  // the worker was started
  std::uint64_t staged = 0;   // ready here, or failed
  std::uint64_t decided = 0;  // of several nodes: all were ready, or one had failed
  std::uint64_t run = 0;      // the first task was let go
  std::uint64_t ended = 0;    // the epilog came
  std::uint64_t out = 0;      // the first stage-out began
  std::uint64_t out_end = 0;  // the last one that has ended
  std::uint64_t held = 0;     // results could not be delivered for the first time
  std::uint64_t gone = 0;     // nothing of the job was left here

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
  std::uint64_t begun = 0;
  std::uint64_t read_to = 0;  // the last byte of the source was read
  std::uint64_t ended = 0;

  bool operator==(const ReportItem&) const = default;
};

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
  std::uint64_t at = 0;  // what is said here is so at this moment
  JobTimes times;
  std::vector<ReportItem> items;    // of the staging
  std::vector<ReportItem> outputs;  // of the last stage-out
  std::uint32_t omitted = 0;

  bool operator==(const NodeReport&) const = default;
};

// A worker's claims, bounded: texts are made short and printable, and times that are neither 0 nor
// from `from` to `to` are moved there.
ReportItem report_item(const ItemRecord& record, std::uint64_t from, std::uint64_t to);

// One line without a newline.
std::string encode_report(NodeReport report);
// A fault for what is no report; texts are made printable.
Result<NodeReport> decode_report(std::string_view json);

}  // namespace nodestage
