#include "common/talk/summary.hpp"

#include <algorithm>
#include <sstream>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

std::string count_of(std::uint64_t files) { return counted(files, "file", "files"); }

// Of less, the rate says more of the node than of the copy.
constexpr std::uint64_t k_least_ms_for_rate = 100;
constexpr std::uint64_t k_least_bytes_for_rate = std::uint64_t{1} << 20;

std::string pruned_text(const ItemRecord& item) {
  return item.pruned == 0 ? "" : count_of(item.pruned) + " pruned";
}

std::string sum_of(const ItemRecord& item) {
  const std::string pruned = pruned_text(item);
  return "up to date: " + count_of(item.files_in_all) + ", " + human_bytes(item.bytes_in_all) +
         " in " + counted(item.deliveries, "delivery", "deliveries") +
         (pruned.empty() ? "" : ", " + pruned);
}

std::string amount(const ItemRecord& item) {
  if (has_earlier(item) && item.files == 0) return sum_of(item);
  std::string text = count_of(item.files) + ", " + human_bytes(item.bytes_written) + " in " +
                     human_duration(item.elapsed_ms);
  if (item.elapsed_ms >= k_least_ms_for_rate && item.bytes_written >= k_least_bytes_for_rate) {
    text += " (" + human_bytes(item.bytes_written * 1000 / item.elapsed_ms) + "/s)";
  }
  return has_earlier(item) ? text + "; " + sum_of(item) : text;
}

std::string note_of(const ItemRecord& item) { return in_one_line(field_text(item.note)); }

// Of an item that is only linked, nothing was staged: the note says where it comes from.
std::string result_of(const ItemRecord& item) {
  std::string note = note_of(item);
  if ((item.flags & k_item_linked) != 0 && !note.empty()) return note;
  return amount(item) + (note.empty() ? "" : "; " + note);
}

std::string line_of(const ItemRecord& item, const std::string& failed) {
  const std::string named = item_title(field_text(item.source), field_text(item.what));
  const std::string note = note_of(item);
  switch (state_of(item)) {
    case ItemState::done:
      return named + " -> " + printable(field_text(item.destination)) + ": " + result_of(item);
    case ItemState::failed:
      return named + failed +
             ((item.flags & k_item_optional) != 0 ? " (optional, the job goes on): " : ": ") + note;
    case ItemState::skipped:
      return named + ": skipped: " + note;
    case ItemState::waiting:
    case ItemState::working:
      break;
  }
  return named +
         ((item.flags & k_item_async) != 0 ? ": still being staged (async)" : ": not finished");
}

StatusItem to_status_item(const ItemRecord& record, WorkerTask task) {
  StatusItem item;
  item.kind = (record.flags & k_item_venv) != 0 ? ItemKind::venv : ItemKind::dataset;
  if (task == WorkerTask::stage_out || task == WorkerTask::push) item.kind = ItemKind::output;
  item.state = state_of(record);
  item.flags = record.flags;
  item.bytes_read = record.bytes_read;
  item.bytes_total = record.bytes_total;
  item.bytes_written = record.bytes_written;
  item.files = record.files;
  item.elapsed_ms = record.elapsed_ms;
  item.name = printable(field_text(record.name));
  item.what = printable(field_text(record.what));
  item.source = printable(field_text(record.source));
  item.destination = printable(field_text(record.destination));
  item.note = in_one_line(field_text(record.note));
  if (item.state == ItemState::done && has_earlier(record)) {  // a sum, which has no rate
    item.bytes_written = record.bytes_in_all;
    item.files = record.files_in_all;
    item.elapsed_ms = 0;
    if (const std::string pruned = pruned_text(record); !pruned.empty())
      item.note = pruned + (item.note.empty() ? "" : "; " + item.note);
  }
  return item;
}

std::string delivery_line(const ItemRecord& item) {
  return line_of(item, " -> " + printable(field_text(item.destination)) + ": not delivered");
}

// An environment that an installer makes has no figures: what it does is in the note.
bool is_built(const ItemRecord& item) {
  const bool has_note = item.note[0] != '\0';
  return (item.flags & k_item_venv) != 0 && state_of(item) == ItemState::working &&
         (has_note || field_text(item.what) == "requirements");
}

// A waiting item may already be read, to find out how much space it needs.
bool is_looked_at(const ItemRecord& item) {
  return state_of(item) == ItemState::waiting && item.bytes_read > 0;
}

bool is_worked_on(const ItemRecord& item) { return state_of(item) == ItemState::working; }

// Returns what happens now, of the `items` that count; null: nothing yet.
const ItemRecord* current_of(const std::vector<const ItemRecord*>& items, WorkerPhase phase) {
  const auto first = [&items](auto is_it) -> const ItemRecord* {
    const auto found =
        std::find_if(items.begin(), items.end(), [&](const auto* item) { return is_it(*item); });
    return found == items.end() ? nullptr : *found;
  };
  if (const auto* worked_on = first(is_worked_on)) return worked_on;
  if (const auto* looked_at = first(is_looked_at)) return looked_at;
  return phase == WorkerPhase::working ? first(is_unfinished) : nullptr;
}

std::string current_text(const ItemRecord& item) {
  std::string name = printable(last_part(field_text(item.source)));
  if (!is_built(item)) return name;
  const std::string doing = field_text(item.note);
  return name + ": " + (doing.empty() ? "its installer starts" : printable(doing));
}

}  // namespace

bool is_asked_for(const ItemRecord& item) {
  return state_of(item) != ItemState::skipped || item.note[0] != '\0';
}

std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n')
      line += ". ";
    else
      line += c;
  }
  return printable(line);
}

std::string item_title(const std::string& source, const std::string& what) {
  const std::string name = printable(last_part(source));
  return what.empty() ? name : name + " (" + printable(what) + ")";
}

std::string queue_line(const std::string& what, std::size_t jobs_ahead) {
  if (!what.empty()) return "waiting for " + printable(what);
  if (jobs_ahead == 0) return "waiting for its turn to stage on this node";
  if (jobs_ahead == 1) return "waiting for another job that stages on this node";
  return "waiting for " + human_count(jobs_ahead) + " other jobs that stage on this node";
}

std::vector<StatusItem> status_items(const WorkerStatus& status, WorkerTask task) {
  std::vector<StatusItem> items;
  items.reserve(status.items.size());
  for (const ItemRecord& record : status.items) items.push_back(to_status_item(record, task));
  return items;
}

std::vector<std::string> summary_lines(const WorkerStatus& status) {
  std::vector<std::string> lines;
  for (const ItemRecord& item : status.items) lines.push_back(line_of(item, ": not staged"));
  return lines_of_message(std::move(lines));
}

std::vector<std::string> user_summary(const WorkerStatus& status) {
  std::vector<std::string> lines;
  for (ItemRecord item : status.items) {
    std::istringstream cause(state_of(item) == ItemState::failed ? field_text(item.note) : "");
    std::string line;
    if (std::getline(cause, line)) set_field(item.note, line);
    lines.push_back(line_of(item, ": not staged"));
    while (std::getline(cause, line)) lines.push_back("  " + printable(line));
  }
  return lines_of_message(std::move(lines));
}

std::vector<std::string> lines_of_message(std::vector<std::string> lines) {
  constexpr std::size_t k_max_bytes = 32 * 1024;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    bytes += lines[i].size() + sizeof(std::uint32_t);
    if (bytes <= k_max_bytes) continue;
    const std::size_t more = lines.size() - i;
    lines.resize(i);
    lines.push_back("(" + human_count(more) + " more, too long to show)");
  }
  return lines;
}

std::vector<std::string> delivery_lines(const WorkerStatus& status) {
  std::vector<std::string> lines;
  lines.reserve(status.items.size());
  for (const ItemRecord& item : status.items) lines.push_back(delivery_line(item));
  return lines;
}

std::vector<std::string> push_lines(const WorkerStatus& status) {
  std::vector<std::string> lines;
  for (const ItemRecord& item : status.items) {
    if (is_asked_for(item)) lines.push_back(delivery_line(item));
  }
  return lines;
}

bool is_all_delivered(const WorkerStatus& status, PushAsked asked) {
  const auto is_open = [asked](const ItemRecord& item) {
    const bool is_not_sent = state_of(item) == ItemState::skipped && is_asked_for(item);
    return state_of(item) == ItemState::failed || is_unfinished(item) ||
           (item.flags & k_item_unsettled) != 0 || (asked == PushAsked::by_name && is_not_sent);
  };
  return status.phase == WorkerPhase::done &&
         std::none_of(status.items.begin(), status.items.end(), is_open);
}

Progress progress_of(const WorkerStatus& status, Counted counted) {
  Progress progress;
  progress.phase =
      status.phase == WorkerPhase::working ? ProgressPhase::staging : ProgressPhase::starting;
  bool total_known = true;
  std::vector<const ItemRecord*> items;
  for (const ItemRecord& item : status.items) {
    if (counted == Counted::without_async && (item.flags & k_item_async) != 0) continue;
    items.push_back(&item);
    progress.bytes_read += item.bytes_read;
    progress.bytes_total += item.bytes_total;
    progress.bytes_written += item.bytes_written;
    progress.files += item.files;
    total_known = total_known && (item.bytes_total != 0 || !is_unfinished(item) || is_built(item));
    if (!is_unfinished(item)) ++progress.items_done;
  }
  progress.items = static_cast<std::uint32_t>(items.size());
  const ItemRecord* current = current_of(items, status.phase);
  if (current != nullptr) progress.current = current_text(*current);
  if (current != nullptr && is_built(*current))
    progress.bytes_read = progress.bytes_total = progress.files = 0;
  if (!total_known) progress.bytes_total = 0;
  return progress;
}

}  // namespace nodestage
