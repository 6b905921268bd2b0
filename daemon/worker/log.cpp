#include "daemon/worker/log.hpp"

#include <unistd.h>

#include "common/human.hpp"

namespace nodestage {

void log_line(std::string_view text) {
  const std::string line = printable(shortened(text, 2000), Newlines::join) + "\n";
  // A log that cannot be written is no reason to fail a job.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace nodestage
