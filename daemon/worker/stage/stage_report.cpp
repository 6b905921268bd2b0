#include "daemon/worker/stage/stage_report.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "common/text/fnv1a.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/log.hpp"

namespace nodestage {
namespace {

void check(const Status& status) {
  if (!status) log_line(status.error().text());
}

std::string hash_of(std::string_view text) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, fnv1a(text));
  return digits;
}

// At most `width` bytes. A hash distinguishes what differs only in the part that is left out.
std::string limited(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::string end = " (" + hash_of(text) + ")";
  return shortened(text, width - end.size()) + end;
}

constexpr std::size_t k_short_line = 120;

}  // namespace

// Each line gets its share of the field; many lines are limited as a whole.
void StageReport::set_chosen(const StagedItems& items) {
  std::vector<std::string> lines;
  for (const auto& item : items) {
    if (std::string line = item->chosen(); !line.empty()) lines.push_back(std::move(line));
  }
  constexpr std::size_t k_room = sizeof header_.chosen - 1;
  const std::size_t share = k_room / std::max<std::size_t>(lines.size(), 1) - 1;
  std::string text;
  for (const auto& line : lines)
    text += (text.empty() ? "" : "\n") + limited(line, std::max(share, k_short_line));
  set_field(header_.chosen, limited(text, k_room));
}

void StageReport::set_outputs(const std::vector<OutputItem>& outputs) {
  header_.outputs = static_cast<std::uint32_t>(outputs.size());
  for (std::size_t i = 0; i < std::min(outputs.size(), k_max_request_items); ++i)
    header_.every_s[i] = outputs[i].every_s;
}

void StageReport::set_environment(const std::vector<std::string>& environment) {
  check(write_status_environment(k_worker_status_fd, environment));
  std::size_t bytes = 0;
  for (const auto& variable : environment) bytes += variable.size() + 1;
  header_.environment_bytes = static_cast<std::uint32_t>(bytes);
}

void StageReport::write(WorkerPhase phase, const StagedItems& items) {
  written_.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ItemRecord record = items[i]->record();
    if (std::memcmp(&record, &written_[i], sizeof record) == 0) continue;
    written_[i] = record;
    check(write_status_item(k_worker_status_fd, i, record));
  }
  header_.items = static_cast<std::uint32_t>(items.size());
  header_.phase = static_cast<std::uint32_t>(phase);
  check(write_status_header(k_worker_status_fd, header_));
}

int StageReport::fail(const std::string& cause, const StagedItems& items) {
  set_field(header_.cause, cause);
  write(WorkerPhase::failed, items);
  log_line("failed: " + cause);
  return 1;
}

}  // namespace nodestage
