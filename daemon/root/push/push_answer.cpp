#include "daemon/root/push/push_answer.hpp"

#include <algorithm>
#include <set>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/wire/request_limits.hpp"

namespace nodestage {
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

Refused unknown_names(const std::vector<std::string>& unknown, const WorkerStatus& status) {
  std::string text;
  for (const std::string& name : unknown)
    text += (text.empty() ? "'" : ", '") + printable(name) + "'";
  return {RefusalReason::unknown_name,
          "the job has no output " + shortened(text, k_max_list_bytes) +
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
  if (!unknown.empty()) return unknown_names(unknown, status);
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
  for (std::size_t i = 0; i < status.items.size(); ++i) {
    if (is_asked_for(status.items[i]) || shown[i].source[0] == '\0') shown[i] = status.items[i];
  }
}

}  // namespace nodestage
