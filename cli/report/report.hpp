// The parts of `nodestage report`: the nodes of a job, which are asked for their records, and what
// is made of these: a table, JSON, and a page that draws it. Pure, except for ask_nodes().
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/slurm/slurm_job.hpp"
#include "common/result.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {

// Reports as cli/slurm/node_jobs.hpp passes them through srun: as JSON, with the restart as their
// number. Pure. Test: tests/unit/test_report_page.cpp.

// The most runs of one job on one node; further ones are ignored.
inline constexpr std::size_t k_most_runs_of_a_node = 64;

// Cuts a report of encode_report() into lines, each with its newline.
std::string to_pieces(const NodeReport& report, const std::string& json);

// Returns the complete reports of `nodes`. Ignores lines that are no reports.
std::vector<NodeReport> from_pieces(std::string_view text, const std::vector<std::string>& nodes);

// Returns a command that prints what this node's daemon knows, and the srun that makes a step of a
// running job of it, with one task per node.
std::vector<std::string> report_words(const std::string& job, const std::string& socket);
std::vector<std::string> step_words(const SlurmJob& slurm_job, const std::string& job,
                                    const std::string& socket);

// Asks with srun, by a step of a running job, or else as ask_by_jobs() does; waits for a few
// minutes at most. Says on stderr which nodes did not answer, and fails if none did. Root asks a
// running job's nodes as the job's user.
Result<std::vector<NodeReport>> ask_nodes(const SlurmJob& slurm_job, const std::string& job,
                                          const std::string& socket);

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

// What `nodestage report` writes for programs and browsers: JSON, and a page that draws it.

// Returns one element of `nodestage report --json`: the report as encode_report() writes it, with
// "spans", the stretches of time of the node and of each item.
nlohmann::json report_json(const NodeReport& report);

// Returns one self-contained HTML file, cli/report/report.html with the texts of the reports. Its
// script draws what report_json() says; its security policy allows it no request. Without
// JavaScript it shows report_table(). Each element of `runs` is one run, not empty, sorted by node.
// Nothing of a report becomes markup.
std::string report_page(const std::vector<std::vector<NodeReport>>& runs);

}  // namespace nodestage
