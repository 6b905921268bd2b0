// StagedLinks: what was staged, for the links of an output that lead to it.
#pragma once

#include <sys/stat.h>

#include <string>
#include <unordered_map>

#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// Each directory is looked at once. Borrows everything.
class StagedLinks {
 public:
  StagedLinks(const JobTree& tree, const StagedData& staged) : tree_(tree), staged_(staged) {}

  // Whether all at and below the path, which looks as `info`, was staged and is as it was.
  [[nodiscard]] bool is_all_unchanged(const std::string& path, const struct stat& info);

 private:
  const JobTree& tree_;
  const StagedData& staged_;
  std::unordered_map<std::string, bool> unchanged_;  // directories
};

}  // namespace nodestage
