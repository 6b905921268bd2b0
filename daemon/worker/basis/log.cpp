#include "daemon/worker/basis/log.hpp"

#include <unistd.h>

#include "common/text/human.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

namespace {

void write_line(const std::string& mark, std::string_view text) {
  const std::string line = mark + printable(shortened(text, 2000), Newlines::join) + "\n";
  // A log that cannot be written is not a reason to fail a job.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void log_line(std::string_view text) { write_line("", text); }
void log_error(std::string_view text) { write_line(k_error_mark, text); }

}  // namespace nodestage
