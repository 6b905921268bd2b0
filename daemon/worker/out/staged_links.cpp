#include "daemon/worker/out/staged_links.hpp"

namespace nodestage {

bool StagedLinks::is_all_unchanged(const std::string& path, const struct stat& info) {
  if (!S_ISDIR(info.st_mode)) return staged_.is_unchanged(path, info);
  const auto known = unchanged_.find(path);
  if (known != unchanged_.end()) return known->second;
  const bool is_unchanged = staged_.is_all_unchanged(tree_, path, StagedData::IfUnknown::changed);
  return unchanged_.emplace(path, is_unchanged).first->second;
}

}  // namespace nodestage
