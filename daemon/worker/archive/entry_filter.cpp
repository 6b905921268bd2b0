#include "daemon/worker/archive/entry_filter.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_told_globs = 3;

std::string clean_glob(const std::string& typed) {
  const auto name = clean_entry_name(typed);
  if (!name) return typed;
  return name->empty() ? "*" : *name;
}

}  // namespace

Result<std::string> clean_entry_name(std::string_view raw) {
  std::string cleaned;
  while (!raw.empty()) {
    const std::string_view part = raw.substr(0, raw.find('/'));
    raw.remove_prefix(std::min(raw.size(), part.size() + 1));
    if (part == "..")
      return Error{EINVAL, "its name contains '..' and would leave the destination"};
    if (part.empty() || part == ".") continue;
    if (!cleaned.empty()) cleaned += '/';
    cleaned += part;
  }
  return cleaned;
}

EntryFilter::Glob::Glob(const std::string& text) : typed(text), cleaned(clean_glob(text)) {}

// Whether it matches the name or a directory that contains it.
bool EntryFilter::Glob::matches(const std::string& name) const {
  if (::fnmatch(cleaned.c_str(), name.c_str(), 0) == 0) return true;
  for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
    if (::fnmatch(cleaned.c_str(), name.substr(0, at).c_str(), 0) == 0) return true;
  }
  return false;
}

EntryFilter::EntryFilter(unsigned strip, const std::vector<std::string>& include,
                         const std::vector<std::string>& exclude)
    : strip_(strip),
      include_(include.begin(), include.end()),
      exclude_(exclude.begin(), exclude.end()) {}

// Asks all globs that have not matched so far, even if the answer is known: several may match.
bool EntryFilter::any_matches(const Globs& globs, const std::string& name) {
  bool any = false;
  for (const Glob& glob : globs) {
    const bool had_matched = glob.has_matched.load(std::memory_order_relaxed);
    if ((any && had_matched) || !glob.matches(name)) continue;
    if (!had_matched) glob.has_matched.store(true, std::memory_order_relaxed);
    any = true;
  }
  return any;
}

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

bool EntryFilter::excludes(const std::string& name) const { return any_matches(exclude_, name); }

bool EntryFilter::wants(const std::string& name) const {
  return !excludes(name) && (include_.empty() || any_matches(include_, name));
}

std::string EntryFilter::idle_globs() const {
  std::string text;
  std::size_t idle = 0;
  const auto tell = [&](const Globs& globs, std::string_view key, std::string_view effect) {
    for (const Glob& glob : globs) {
      if (glob.has_matched || ++idle > k_told_globs) continue;
      if (!text.empty()) text += ", ";
      text.append(key).append(shown(glob.typed)).append(effect);
    }
  };
  tell(include_, "include=", " selects nothing");
  tell(exclude_, "exclude=", " excludes nothing");
  if (idle > k_told_globs)
    text += ", likewise " + human_count(idle - k_told_globs) + " other globs";
  return text;
}

}  // namespace nodestage
