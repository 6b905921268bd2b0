#include "daemon/root/jobs/awaited.hpp"

#include <algorithm>

#include "common/text/human.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_variable = "NODESTAGE_DATASET";
constexpr std::size_t k_max_text_bytes = 32 * 1024;

// A name as a record has it.
std::string as_field(std::string name) {
  name.resize(std::min(name.size(), sizeof ItemRecord::name - 1));
  return name;
}

std::string as_path(std::string_view name, const std::string& directory) {
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  return name.starts_with('/') ? std::string(name) : directory + "/" + std::string(name);
}

struct Known {
  std::string name;
  std::string destination;
};

// The items that `name` means.
std::vector<std::size_t> find(const std::vector<Known>& items, const std::string& name,
                              const std::string& directory) {
  std::vector<std::size_t> found;
  const auto take = [&](auto means) {
    for (std::size_t i = 0; found.empty() && i < items.size(); ++i)
      if (means(items[i])) found.push_back(i);
    return !found.empty();
  };
  const std::string variable = variable_name(name);
  if (variable.empty()) return found;
  if (take([&, full = as_field(variable)](const Known& item) { return item.name == full; }))
    return found;
  const std::string prefix = std::string(k_variable) + "_";
  if (variable.starts_with(prefix) && take([&, rest = as_field(variable.substr(prefix.size()))](
                                               const Known& item) { return item.name == rest; }))
    return found;
  if (variable == k_variable && !items.empty()) return {0};
  take(
      [&, path = as_path(name, directory)](const Known& item) { return item.destination == path; });
  return found;
}

}  // namespace

Awaited choose_awaited(const WorkerStatus& status, const std::vector<std::string>& names,
                       const std::string& directory) {
  if (names.empty()) return {status, {}};
  std::vector<Known> items;
  items.reserve(status.items.size());
  for (const ItemRecord& item : status.items)
    items.push_back({field_text(item.name), field_text(item.destination)});
  std::vector<bool> is_meant(items.size());
  Awaited awaited;
  for (const std::string& name : names) {
    const auto found = find(items, name, directory);
    for (const std::size_t i : found) is_meant[i] = true;
    if (found.empty()) awaited.unknown.push_back(name);
  }
  awaited.status.phase = status.phase;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (is_meant[i]) awaited.status.items.push_back(status.items[i]);
  return awaited;
}

bool all_ended(const WorkerStatus& status) {
  return std::none_of(status.items.begin(), status.items.end(), is_unfinished);
}

std::string failures(const WorkerStatus& status, Optional optional, const std::string& fault) {
  std::string text;
  for (const ItemRecord& item : status.items) {
    const bool failed = state_of(item) == ItemState::failed;
    const bool left_out = optional == Optional::is_left_out && (item.flags & k_item_optional) != 0;
    if (left_out || (!failed && (fault.empty() || !is_unfinished(item)))) continue;
    const std::string note = failed ? field_text(item.note) : fault;
    const std::string line = "dataset '" + printable(field_text(item.name)) +
                             "': " + (note.empty() ? "failed" : printable(note, Newlines::keep));
    if (text.size() + line.size() > k_max_text_bytes) return text + "\n(and more)";
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

std::string dataset_names(const WorkerStatus& status) {
  std::string text;
  for (const ItemRecord& item : status.items)
    text += (text.empty() ? "" : ", ") + printable(field_text(item.name));
  return text;
}

}  // namespace nodestage
