#include "daemon/worker/tree/unreadable_entries.hpp"

#include <array>
#include <cstdio>

#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

std::string octal(mode_t mode) {
  std::array<char, 8> digits{};
  std::snprintf(digits.data(), digits.size(), "%03o", mode & 0777U);
  return digits.data();
}

}  // namespace

void UnreadableEntries::look_at(const std::string& path, mode_t mode) {
  const mode_t needed = S_ISDIR(mode) ? S_IRUSR | S_IXUSR : S_IRUSR;
  if ((mode & needed) != needed) found_.add(shown(path) + " (mode " + octal(mode) + ")");
}

std::string UnreadableEntries::note() const {
  const auto count = found_.count();
  if (count == 0) return {};
  return human_count(count) + (count == 1 ? " entry has" : " entries have") +
         " a mode that keeps you from reading, such as " + found_.first();
}

}  // namespace nodestage
