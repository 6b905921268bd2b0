#include "common/os/wall_clock.hpp"

#include <fcntl.h>

#include <algorithm>
#include <sstream>

#include "common/os/file.hpp"

namespace nodestage {

std::string boot_id() {
  const auto text = read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

std::uint64_t start_ticks_of(const std::string& pid) {
  const auto text = read_file(AT_FDCWD, "/proc/" + pid + "/stat", 4096);
  if (!text) return 0;
  // The command's name, in parentheses, can contain any character; field 3 follows it.
  std::istringstream fields(text->substr(std::min(text->rfind(')') + 1, text->size())));
  std::string field;
  std::uint64_t ticks = 0;
  for (int number = 3; number < 22; ++number) fields >> field;
  return fields >> ticks ? ticks : 0;
}

}  // namespace nodestage
