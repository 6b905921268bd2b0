// StagedLinks: decides how much of what was staged is delivered in the places of links to it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// Each directory is looked at once. Borrows everything.
class StagedLinks {
 public:
  // At most `most_bytes` of what was staged and is unchanged are delivered in their places.
  StagedLinks(const JobTree& tree, const StagedData& staged, std::uint64_t most_bytes)
      : tree_(tree), staged_(staged), left_(most_bytes) {}

  // Returns whether all at and below the path, which looks as `info`, was staged and is as it was.
  [[nodiscard]] bool is_all_unchanged(const std::string& path, const struct stat& info);

  // Returns how much of the place is delivered in the place of a link.
  [[nodiscard]] Linked share(const JobPlace& place);

 private:
  struct Content;
  [[nodiscard]] Content content_of(const JobPlace& place) const;

  const JobTree& tree_;
  const StagedData& staged_;
  std::uint64_t left_;
  std::unordered_map<std::string, bool> unchanged_;  // directories
  std::unordered_map<std::string, Linked> shares_;
};

}  // namespace nodestage
