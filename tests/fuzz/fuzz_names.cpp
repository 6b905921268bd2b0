// Names that decide what is read, each on a line: the parts of one file, the patterns of a source,
// and the indices of an array.
#include <algorithm>

#include "common/request/source_names.hpp"
#include "common/text/part_names.hpp"
#include "input.hpp"

using namespace nodestage;

namespace {

void try_parts(const std::vector<std::string>& names) {
  const auto parts = order_parts(names, "/p/*");
  if (!parts) return;
  require(!parts->paths.empty() && parts->paths.size() <= k_most_parts);
  for (const auto* list : {&parts->paths, &parts->others})
    for (const std::string& path : *list)
      require(std::find(names.begin(), names.end(), path) != names.end());
  for (const std::string& path : names)
    require(std::find(parts->paths.begin(), parts->paths.end(), path) != parts->paths.end() ||
            std::find(parts->others.begin(), parts->others.end(), path) != parts->others.end());
  static_cast<void>(left_out_parts(*parts));
}

void try_pattern(const std::string& name) {
  static_cast<void>(how_to_join(name));
  static_cast<void>(whole_of_glob(name));
  if (!check_source_pattern(name)) return;
  const auto names = names_before_start(name, "0-9", WhichTasks::all);
  require(!names || (!names->empty() && names->size() <= 10));
}

// A range of millions is taken, and takes its time.
void try_indices(const std::string& text) {
  if (text.size() > 5) return;
  const auto indices = indices_of_array(text);
  require(!indices || (!indices->empty() && indices->size() <= k_max_tasks));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> names;
  std::string_view text = text_of(data, size);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto name = text.substr(0, end);
        !name.empty() && name.find('\0') == std::string_view::npos)
      names.push_back("/p/" + std::string(name));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (names.empty()) return 0;
  for (const std::string& name : names) {
    try_pattern(name);
    try_indices(name.substr(3));
  }
  try_parts(names);
  return 0;
}
