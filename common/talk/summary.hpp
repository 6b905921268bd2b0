// Writes what a job's output says about its staging, from the worker's status. Texts are bounded
// and printable.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Joins lines (a cause, then what to do) as "cause. what to do", printable.
std::string in_one_line(const std::string& text);

// Returns "data.tar.gz (tar.gz)" from a path and its format; without the format if `what` is empty.
std::string item_title(const std::string& source, const std::string& what);

// Returns what a job in the queue waits for: `what`, or, if that is empty, its turn.
std::string queue_line(const std::string& what, std::size_t jobs_ahead);

// Returns the items of a worker with this task, for `nodestage status`.
std::vector<StatusItem> status_items(const WorkerStatus& status, WorkerTask task);

// Returns one line per item: source, destination, files, bytes, duration, and note. For an item
// that is only linked (k_item_linked): source, destination, and its note. For an output that has
// earlier deliveries: what its target has of it.
std::vector<std::string> summary_lines(const WorkerStatus& status);
// The same for a job's user: why an item failed has as many lines as its cause.
std::vector<std::string> user_summary(const WorkerStatus& status);

// Returns as many of the lines as one message has room for beside an environment
// (k_max_message_bytes), and how many more there are.
std::vector<std::string> lines_of_message(std::vector<std::string> lines);

// Does the same for a stage-out, without that limit.
std::vector<std::string> delivery_lines(const WorkerStatus& status);

// How each line of nodestage in a job's output starts.
inline constexpr std::string_view k_line_start = "nodestage: ";

// How the lines of a job's output start that say that results are not in their targets.
inline constexpr std::string_view k_results_kept =
    "what could not be delivered is kept on this node";
inline constexpr std::string_view k_results_lost_with_site =
    "what could not be delivered is lost with the site's directory";
inline constexpr std::string_view k_results_lost = "the results are lost";
// The same for what a later line says of results that were kept: they are not kept any more.
inline constexpr std::string_view k_kept_delivered = "the results that were kept are delivered now";
inline constexpr std::string_view k_kept_recovered = "the results were recovered to ";
inline constexpr std::string_view k_kept_removed = "the results were removed ";
inline constexpr std::string_view k_kept_taken = "the administrators took the held results away";

// In the notice of a job about sources without a result, and once nothing is left to do.
inline constexpr std::string_view k_notice_of_missing = "were not there when the job ended";
inline constexpr std::string_view k_notice_is_over = "can remove this file.";

// Returns whether a push was asked for the output; it says nothing of the others.
bool is_asked_for(const ItemRecord& item);
// Does the same for a push, without the outputs that were not asked for.
std::vector<std::string> push_lines(const WorkerStatus& status);
// Whether a push has delivered all that was asked for: outputs by their names, which must be there
// and can be delivered early, or all that there is.
enum class PushAsked { by_name, all };
bool is_all_delivered(const WorkerStatus& status, PushAsked asked);

// The sums over the items that the job waits for, or over all items.
enum class Counted { without_async, all };
Progress progress_of(const WorkerStatus& status, Counted counted = Counted::without_async);

}  // namespace nodestage
