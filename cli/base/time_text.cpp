#include "cli/base/time_text.hpp"

#include <ctime>

#include "common/text/parsing.hpp"

namespace nodestage {

Result<std::int64_t> parse_moment(const std::string& text) {
  const Error wrong{EINVAL, "'" + text + "' is not a date or time"};
  if (text.starts_with('@')) {
    const auto seconds = parse_number<std::int64_t>(std::string_view(text).substr(1));
    if (!seconds) return wrong;
    return *seconds;
  }
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"}) {
    std::tm parts{};
    const char* rest = ::strptime(text.c_str(), format, &parts);
    if (rest != nullptr && *rest == '\0') return static_cast<std::int64_t>(::timegm(&parts));
  }
  return wrong;
}

}  // namespace nodestage
