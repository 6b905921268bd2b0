#include "daemon/worker/archive/entry_filter.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_named_globs = 3;
constexpr std::size_t k_most_patterns = 32;  // of one glob; enough for five "**/"

std::string clean_glob(const std::string& typed) {
  const auto name = clean_entry_name(typed);
  if (!name) return typed;
  return name->empty() ? "*" : *name;
}

bool has_no_slash(std::string_view glob) {
  while (glob.ends_with('/')) glob.remove_suffix(1);
  return glob.find('/') == std::string_view::npos;
}

// The pattern, and the same without each "**/" of it, which can stand for nothing.
std::vector<std::string> with_any_depth(std::string pattern) {
  for (std::size_t at = 0; (at = pattern.find("**/**/", at)) != std::string::npos;)
    pattern.erase(at, 3);
  std::vector<std::string> all = {std::move(pattern)};
  for (std::size_t i = 0; i < all.size() && all.size() < k_most_patterns; ++i) {
    const std::string whole = all[i];
    for (std::size_t at = whole.find("**/"); at != std::string::npos;
         at = whole.find("**/", at + 1)) {
      std::string without = whole;
      if (at == 0 || whole[at - 1] == '/') all.push_back(without.erase(at, 3));
    }
  }
  return all;
}

}  // namespace

Result<std::string> clean_entry_name(std::string_view raw) {
  std::string cleaned;
  while (!raw.empty()) {
    const std::string_view part = take_part(raw, '/');
    if (part == "..")
      return Error{EINVAL, "its name contains '..' and would leave the destination"};
    if (part.empty() || part == ".") continue;
    if (!cleaned.empty()) cleaned += '/';
    cleaned += part;
  }
  return cleaned;
}

EntryFilter::Glob::Glob(const std::string& text)
    : typed(text),
      patterns(with_any_depth(clean_glob(text))),
      is_of_any_depth(has_no_slash(text)) {}

// Whether it matches the name or a directory that contains it.
bool EntryFilter::Glob::matches(const std::string& name) const {
  const auto match = [this](const std::string& part) {
    return std::any_of(patterns.begin(), patterns.end(), [&part](const std::string& pattern) {
      return ::fnmatch(pattern.c_str(), part.c_str(), 0) == 0;
    });
  };
  for (std::size_t begin = 0, end = 0; end < name.size(); begin = end + 1) {
    end = std::min(name.find('/', begin), name.size());
    if (match(name.substr(0, end))) return true;
    if (is_of_any_depth && begin > 0 && match(name.substr(begin, end - begin))) return true;
  }
  return false;
}

// Compares what is before the first wildcard.
bool EntryFilter::Glob::may_match_below(const std::string& directory) const {
  const std::string below = directory + "/";
  return is_of_any_depth ||
         std::any_of(patterns.begin(), patterns.end(), [&below](const std::string& pattern) {
           const std::string start = pattern.substr(0, pattern.find_first_of("*?[\\"));
           return below.starts_with(start) || start.starts_with(below);
         });
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

bool EntryFilter::may_want_below(const std::string& directory) const {
  return !excludes(directory) &&
         (include_.empty() || std::any_of(include_.begin(), include_.end(), [&](const Glob& glob) {
            return glob.may_match_below(directory);
          }));
}

bool EntryFilter::wants(const std::string& name) const {
  return !excludes(name) && (include_.empty() || any_matches(include_, name));
}

std::string EntryFilter::idle_globs() const {
  std::string text;
  std::size_t idle = 0;
  const auto name_idle = [&](const Globs& globs, std::string_view key, std::string_view effect) {
    for (const Glob& glob : globs) {
      if (glob.has_matched || ++idle > k_named_globs) continue;
      if (!text.empty()) text += ", ";
      text.append(key).append(shown(glob.typed)).append(effect);
    }
  };
  name_idle(include_, "include=", " selects nothing");
  name_idle(exclude_, "exclude=", " excludes nothing");
  if (idle > k_named_globs)
    text += ", likewise " + human_count(idle - k_named_globs) + " other globs";
  return text;
}

}  // namespace nodestage
