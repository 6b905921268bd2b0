#include "common/os/boot_id.hpp"

#include <fcntl.h>

#include "common/os/file.hpp"

namespace nodestage {

std::string boot_id() {
  const auto text = read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256);
  return text ? text->substr(0, text->find('\n')) : std::string();
}

}  // namespace nodestage
