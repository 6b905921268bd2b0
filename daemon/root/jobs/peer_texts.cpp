#include "daemon/root/jobs/peer_texts.hpp"

#include <algorithm>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

std::string in_brackets(const std::string& fault) {
  return fault.empty() ? "" : " (" + fault + ")";
}

}  // namespace

std::chrono::milliseconds note_interval(const JobRecord& record) {
  const std::uint64_t scaled = 10ULL * record.begin.node_count;
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(scaled, 2000, 30'000));
}

std::chrono::seconds silence_of(const JobRecord& record, const Config& config) {
  const auto notes = std::chrono::ceil<std::chrono::seconds>(3 * note_interval(record));
  return std::max(std::chrono::seconds(config.peer.silence_wait_s), notes);
}

std::string bounded(const std::string& text) { return text.substr(0, k_max_note_text_bytes); }

std::string submit_again(const std::string& node) {
  return ". Submit the job again, with --exclude=" + printable(node) +
         " to avoid that node, and tell the administrators.";
}

std::string why_silent(const Begin& begin, bool has_begun, const std::string& fault,
                       const Config& config) {
  if (has_begun) {
    return "has begun and then fallen silent: " +
           (fault.empty() ? "its nodestaged runs, but cannot reach this node or has lost the job"
                          : "the node or its nodestaged is down" + in_brackets(fault));
  }
  const std::string late =
      "has not begun within " + human_duration(config.peer.begin_wait_s * 1000) + ": ";
  if ((begin.slurm_ways & k_at_allocation) == 0) {
    return late +
           "slurm.conf lacks PrologFlags=Alloc, so its prolog runs with the first step "
           "there (--stage-wait=node waits for one node only)" +
           in_brackets(fault);
  }
  if (!fault.empty())
    return late + "nodestaged does not run there, or its port is blocked" + in_brackets(fault);
  return late + "nodestaged runs there, but the job's prolog has not, or it cannot reach port " +
         std::to_string(config.peer.port) + " of " + printable(begin.node) +
         ", or one of the two cannot prove its notes to the other (the log of nodestaged says "
         "more)";
}

std::string why_first_is_silent(const Begin& begin, const std::string& fault,
                                const Config& config) {
  return printable(begin.first_node) +
         ", the job's first node, does not say whether all nodes are ready: " +
         (fault.empty()
              ? "its nodestaged runs, but does not know this job, or cannot reach port " +
                    std::to_string(config.peer.port) + " of " + printable(begin.node)
              : "nodestaged does not run there, or its port is blocked" + in_brackets(fault));
}

}  // namespace nodestage
