#include "daemon/root/push/push_plan.hpp"

#include <algorithm>

#include "common/text/human.hpp"
#include "common/wire/request_limits.hpp"

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
  return "note: this site delivers results of a running job every " +
         human_duration(1000 * least_s) + " at most (" + raised + " was asked for)";
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

}  // namespace nodestage
