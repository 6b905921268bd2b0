// EntryFilter: which entries are staged, and under which names: strip=, include=, exclude=.
//
// A name is first cleaned ("/a//./b/" becomes "a/b"), then loses its first `strip` components. An
// entry without any component left is dropped. The globs then apply to the remaining name, as in
// tar, rsync and gitignore:
//  - A glob without a slash, but for one at its end, matches a name at any depth: ".git", "*.png".
//  - Any other matches from the start of the whole name: "train/*" and "./train" only at the top.
//  - "*" and "?" match "/" too: "train/*.png" is every PNG file below train. "**/" is any number of
//    directories, none too: "**/x" is "x", too.
//  - A glob that matches a directory matches all below it: "train" is all of train, too.
//  - Globs are cleaned as names are: "./train/", as `tar tf` shows it, is "train"; "." is all.
// An entry is dropped if it matches an exclude glob, or if there are include globs and it matches
// none. Directories above the remaining entries are made as needed.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// "" for the root itself. A fault for a name with "..".
Result<std::string> clean_entry_name(std::string_view raw);

// Not movable. Any thread.
class EntryFilter {
 public:
  EntryFilter(unsigned strip, const std::vector<std::string>& include,
              const std::vector<std::string>& exclude);

  // The name under which the entry of that cleaned name is staged; empty: it is dropped.
  [[nodiscard]] std::optional<std::string> map(std::string_view cleaned) const;

  // The same without the globs, for the target of a hard link.
  [[nodiscard]] std::optional<std::string> strip(std::string_view cleaned) const;

  [[nodiscard]] bool wants(const std::string& name) const;     // for a name after strip
  [[nodiscard]] bool excludes(const std::string& name) const;  // for a directory: all of it
  // Whether a name below that directory, after strip, can be wanted.
  [[nodiscard]] bool may_want_below(const std::string& directory) const;
  [[nodiscard]] bool takes_all() const {
    return strip_ == 0 && include_.empty() && exclude_.empty();
  }

  // For the user, after all names were asked for: the globs that made no difference, for instance
  // because of a typing mistake. Empty if every glob did.
  [[nodiscard]] std::string idle_globs() const;

 private:
  struct Glob {
    explicit Glob(const std::string& text);
    [[nodiscard]] bool matches(const std::string& name) const;
    [[nodiscard]] bool may_match_below(const std::string& directory) const;

    const std::string typed;
    const std::vector<std::string> patterns;  // one of them must match
    const bool is_of_any_depth;
    mutable std::atomic<bool> has_matched = false;
  };
  using Globs = std::deque<Glob>;
  static bool any_matches(const Globs& globs, const std::string& name);

  const unsigned strip_;
  Globs include_;
  Globs exclude_;
};

}  // namespace nodestage
