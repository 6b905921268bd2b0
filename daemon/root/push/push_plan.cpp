#include "daemon/root/push/push_plan.hpp"

#include <algorithm>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

static_assert(k_max_request_items <= 64, "a bit of PushWanted::items for each");
constexpr std::uint64_t k_most_s = 30 * 86'400;  // a claim of the user's
constexpr unsigned k_parts = 1024;               // of an interval
constexpr unsigned k_jobs_part = k_parts / 8;

}  // namespace

void PushWanted::add(const std::vector<std::string>& more) {
  if (more.empty()) all = true;
  names.insert(more.begin(), more.end());
}

void PushWanted::write_to(PushOrder& order) const {
  order.push_all = all;
  order.push_items = items;
  order.push_names.assign(names.begin(), names.end());
}

// Never later than after the interval, which the user counts on.
std::chrono::milliseconds first_delay(const Begin& begin, std::chrono::seconds interval) {
  const std::uint64_t count = std::max<std::uint32_t>(begin.node_count, 1);
  const std::uint64_t index = begin.node_index == k_no_number ? 0 : begin.node_index % count;
  const std::uint64_t of_node = k_parts * (index + 1) / count;
  constexpr std::uint32_t k_golden = 2654435769U;  // 2^32 / φ: Knuth, TAOCP volume 3, 6.4
  const std::uint64_t of_job = k_jobs_part * std::uint64_t{begin.job * k_golden >> 16} >> 16;
  const std::uint64_t part = of_node > of_job ? of_node - of_job : 0;
  return std::chrono::milliseconds(interval) * part / k_parts;
}

std::string raised_note(const std::vector<std::uint32_t>& every_s, std::uint64_t least_s) {
  const std::set<std::uint32_t> intervals(every_s.begin(), every_s.end());
  std::string raised;
  for (const std::uint32_t interval : intervals) {
    if (interval != 0 && interval < least_s)
      raised += (raised.empty() ? "every=" : ", every=") + std::to_string(interval);
  }
  if (raised.empty()) return {};
  const std::string least =
      least_s % 60 == 0 ? human_count(least_s / 60) + " min" : human_duration(1000 * least_s);
  return "note: this site delivers results of a running job at most once in " + least + " (" +
         raised + " was asked for)";
}

PushTimes::PushTimes(const Begin& begin, const std::vector<std::uint32_t>& every_s,
                     std::uint64_t least_s, Clock::time_point now,
                     std::chrono::milliseconds waited) {
  for (std::size_t i = 0; i < every_s.size(); ++i) {
    if (every_s[i] == 0) continue;
    const std::chrono::seconds interval(
        std::clamp<std::uint64_t>(every_s[i], std::min(least_s, k_most_s), k_most_s));
    const auto left = first_delay(begin, interval) - waited;
    outputs_.push_back({i, interval, now + std::max(left, std::chrono::milliseconds(0))});
  }
}

std::optional<Clock::time_point> PushTimes::next() const {
  if (outputs_.empty()) return {};
  return std::min_element(outputs_.begin(), outputs_.end(),
                          [](const Output& a, const Output& b) { return a.due < b.due; })
      ->due;
}

std::uint64_t PushTimes::take_due(Clock::time_point now) {
  std::uint64_t items = 0;
  for (Output& output : outputs_) {
    if (output.due > now) continue;
    items |= std::uint64_t{1} << output.item;
    output.due = now + output.interval;
  }
  return items;
}

void PushTimes::postpone(Clock::time_point until) {
  for (Output& output : outputs_) output.due = std::max(output.due, until);
}

namespace {

constexpr std::size_t k_max_list_bytes = 16 * 1024;

bool is_unsettled(const ItemRecord& item) { return (item.flags & k_item_unsettled) != 0; }

std::string source_of(const ItemRecord& item) { return printable(field_text(item.source)); }

std::string list_of_outputs(const WorkerStatus& status) {
  std::string list;
  for (const ItemRecord& item : status.items)
    list += (list.empty() ? "'" : ", '") + source_of(item) + "'";
  return shortened(list, k_max_list_bytes);
}

// As the name is in a record: the worker shortens what is too long for it.
std::string name_in_record(const std::string& name) {
  return shortened(name, sizeof ItemRecord{}.source - 1);
}

Refused unknown_outputs(const std::vector<std::string>& unknown, const WorkerStatus& status) {
  return {RefusalReason::unknown_name,
          "the job has no output " + shortened(quoted_names(unknown), k_max_list_bytes) +
              "; the sources of its --stage-out: " + list_of_outputs(status)};
}

// The first lines that say why not all is delivered.
std::string cause_in(const WorkerStatus& asked) {
  for (const ItemRecord& item : asked.items) {
    const bool is_named_alone = state_of(item) == ItemState::skipped;
    if (state_of(item) == ItemState::failed || is_unsettled(item) || is_named_alone)
      return source_of(item) + ": " + in_one_line(field_text(item.note));
  }
  return "";
}

}  // namespace

PushResult result_of(const WorkerStatus& status) {
  if (status.phase != WorkerPhase::done) return PushResult::failed;
  const bool is_open = std::any_of(status.items.begin(), status.items.end(), is_unsettled);
  return is_open ? PushResult::unsettled : PushResult::done;
}

std::string cause_of_failure(const WorkerStatus& status, const WorkerEnd& end) {
  if (status.phase == WorkerPhase::failed) return printable(status.cause, Newlines::keep);
  return "the process that delivers " + end.text;
}

Message answer_to(const std::vector<std::string>& names, const WorkerStatus& status,
                  const WorkerEnd& end) {
  const bool has_word = status.phase == WorkerPhase::done ||
                        (status.phase == WorkerPhase::failed && !status.items.empty());
  if (!has_word) return Failed{cause_of_failure(status, end), {}};
  if (status.items.empty())
    return Refused{RefusalReason::unknown_name,
                   "the job has no --stage-out, so there is nothing to deliver"};
  std::set<std::string> known;
  for (const ItemRecord& item : status.items) known.insert(field_text(item.source));
  std::set<std::string> named;
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    const std::string in_record = name_in_record(name);
    if (known.contains(in_record))
      named.insert(in_record);
    else
      unknown.push_back(name);
  }
  if (!unknown.empty()) return unknown_outputs(unknown, status);
  WorkerStatus asked;
  bool has_failed = false;
  for (const ItemRecord& item : status.items) {
    const bool is_meant =
        names.empty() ? is_asked_for(item) : named.contains(field_text(item.source));
    if (!is_meant) continue;
    asked.items.push_back(item);
    const bool is_skipped = !names.empty() && state_of(item) == ItemState::skipped;
    has_failed =
        has_failed || is_skipped || state_of(item) == ItemState::failed || is_unsettled(item);
  }
  std::vector<std::string> lines = lines_of_message(delivery_lines(asked));
  if (!has_failed) return Ready{{}, std::move(lines)};
  return Failed{cause_in(asked), std::move(lines)};
}

PushFailures failures_after(PushFailures before, const WorkerStatus& status) {
  const bool has_failed = result_of(status) == PushResult::failed;
  PushFailures after{before.items, has_failed && status.items.empty()};
  for (std::size_t i = 0; i < std::min(status.items.size(), k_max_request_items); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const ItemState state = state_of(status.items[i]);
    if (state == ItemState::skipped) continue;
    after.items = state == ItemState::done ? after.items & ~bit : after.items | bit;
  }
  return after;
}

void show_push(const WorkerStatus& status, std::vector<ItemRecord>& shown) {
  if (shown.size() < status.items.size()) shown.resize(status.items.size());
  for (std::size_t i = 0; i < status.items.size(); ++i)
    if (is_asked_for(status.items[i]) || shown[i].source[0] == '\0') shown[i] = status.items[i];
}

}  // namespace nodestage
