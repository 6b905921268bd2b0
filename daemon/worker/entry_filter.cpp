#include "daemon/worker/entry_filter.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace nodestage {
namespace {

// Whether the glob matches the name or a directory that it is in.
bool matches(const std::string& glob, const std::string& name) {
  if (::fnmatch(glob.c_str(), name.c_str(), 0) == 0) return true;
  for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
    if (::fnmatch(glob.c_str(), name.substr(0, at).c_str(), 0) == 0) return true;
  }
  return false;
}

std::vector<std::string> cleaned(std::vector<std::string> globs) {
  for (std::string& glob : globs) {
    const auto name = clean_entry_name(glob);
    if (name) glob = name->empty() ? "*" : *name;
  }
  return globs;
}

bool matches_any(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const auto& glob) { return matches(glob, name); });
}

}  // namespace

Result<std::string> clean_entry_name(std::string_view raw) {
  std::string cleaned;
  while (!raw.empty()) {
    const std::string_view part = raw.substr(0, raw.find('/'));
    raw.remove_prefix(std::min(raw.size(), part.size() + 1));
    if (part == "..") return Error{EINVAL, "its name holds '..' and would leave the destination"};
    if (part.empty() || part == ".") continue;
    if (!cleaned.empty()) cleaned += '/';
    cleaned += part;
  }
  return cleaned;
}

EntryFilter::EntryFilter(unsigned strip, std::vector<std::string> include,
                         std::vector<std::string> exclude)
    : strip_(strip), include_(cleaned(std::move(include))), exclude_(cleaned(std::move(exclude))) {}

std::optional<std::string> EntryFilter::strip(std::string_view cleaned) const {
  for (unsigned i = 0; i < strip_; ++i) {
    const std::size_t slash = cleaned.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    cleaned.remove_prefix(slash + 1);
  }
  return std::string(cleaned);
}

std::optional<std::string> EntryFilter::map(std::string_view cleaned) const {
  auto name = strip(cleaned);
  if (name && !name->empty() && !wants(*name)) return std::nullopt;
  return name;
}

bool EntryFilter::excludes(const std::string& name) const { return matches_any(exclude_, name); }

bool EntryFilter::wants(const std::string& name) const {
  return !excludes(name) && (include_.empty() || matches_any(include_, name));
}

}  // namespace nodestage
