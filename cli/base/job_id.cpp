#include "cli/base/job_id.hpp"

#include <charconv>
#include <string_view>

namespace nodestage {
namespace {

bool parse_number(std::string_view text, std::uint32_t& number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

}  // namespace

std::optional<JobId> parse_job_id(const std::string& text) {
  JobId id;
  const std::size_t dot = text.find('.');
  if (!parse_number(std::string_view(text).substr(0, dot), id.job)) return {};
  if (dot != std::string::npos && !parse_number(std::string_view(text).substr(dot + 1), id.restart))
    return {};
  return id;
}

}  // namespace nodestage
