// What a copy in the target keeps of its source's times and modes.
#pragma once

#include <sys/stat.h>

#include "common/result.hpp"
#include "daemon/worker/deliver/output_report.hpp"

namespace nodestage {

// Returns whether `there` is `time`, or as much of it as a file system keeps.
bool is_copied_time(const timespec& there, const timespec& time);

// Some FUSE and CIFS mounts keep neither modes nor times. The first refusal becomes a note of the
// report, and the copies go on.
class KeptAttributes {
 public:
  explicit KeptAttributes(OutputReport& report) : report_(report) {}

  // Takes `code`, the errno of the call that should set `what`, or 0.
  Status keep(const char* what, int code);

 private:
  OutputReport& report_;
  bool is_noted_ = false;
};

}  // namespace nodestage
