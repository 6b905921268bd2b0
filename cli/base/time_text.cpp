#include "cli/base/time_text.hpp"

#include <charconv>
#include <ctime>

namespace nodestage {

Result<std::int64_t> parse_moment(const std::string& text) {
  const Error wrong{EINVAL, "'" + text + "' is not a date or time"};
  if (text.starts_with('@')) {
    std::int64_t seconds = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + 1, end, seconds);
    if (read.ec != std::errc() || read.ptr != end) return wrong;
    return seconds;
  }
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"}) {
    std::tm parts{};
    const char* rest = ::strptime(text.c_str(), format, &parts);
    if (rest != nullptr && *rest == '\0') return static_cast<std::int64_t>(::timegm(&parts));
  }
  return wrong;
}

}  // namespace nodestage
