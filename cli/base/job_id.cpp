#include "cli/base/job_id.hpp"

#include <string_view>

#include "common/text/parsing.hpp"

namespace nodestage {

std::optional<JobId> parse_job_id(const std::string& text) {
  JobId id;
  const std::size_t dot = text.find('.');
  const auto job = parse_number<std::uint32_t>(std::string_view(text).substr(0, dot));
  if (!job) return {};
  id.job = *job;
  if (dot == std::string::npos) return id;
  const auto restart = parse_number<std::uint32_t>(std::string_view(text).substr(dot + 1));
  if (!restart) return {};
  id.restart = *restart;
  return id;
}

}  // namespace nodestage
