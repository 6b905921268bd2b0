// UnreadableEntries: what is staged with a mode that keeps its owner, the job's user, from reading
// it: in the source it was like that, or readable by its group alone.
#pragma once

#include <sys/stat.h>

#include <string>

#include "daemon/worker/tree/named_count.hpp"

namespace nodestage {

// For several threads.
class UnreadableEntries {
 public:
  // `mode`: of the staged file or directory, with its type.
  void look_at(const std::string& path, mode_t mode);

  // For the user; "": there are none.
  [[nodiscard]] std::string note() const;

 private:
  NamedCount found_;
};

}  // namespace nodestage
