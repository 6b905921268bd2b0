// Journal: the jobs of this node on disk, so that a daemon can carry on where another stopped.
//
//   STATE_DIR/jobs/<job>.<restart>.json      JobRecord, replaced atomically at every change
//   STATE_DIR/jobs/<job>.<restart>.request   the user's request, as it came; root reads it only
//                                            to hand it to a worker
//
// JSON, version 1; the keys are JobRecord's. Needs root. Test: tests/unit/test_journal.cpp.
#pragma once

#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/job.hpp"

namespace nodestage {

std::string encode_record(const JobRecord& record);
Result<JobRecord> decode_record(std::string_view json);

class Journal {
 public:
  static Result<Journal> open(const std::string& state_dir);

  // Durable on return. Call save_request() once, before the first save().
  Status save(const JobRecord& record) const;
  Status save_request(const JobRecord& record) const;
  void forget(const JobKey& key) const;

  struct Loaded {
    std::vector<JobRecord> records;
    std::vector<std::string> faults;  // files that could not be read; they are left in place
  };
  // Removes what a daemon that died had started to write. Nothing else may write meanwhile.
  [[nodiscard]] Loaded load() const;

 private:
  explicit Journal(Fd directory) : directory_(std::move(directory)) {}
  [[nodiscard]] bool is_half_written(const std::string& name) const;
  Fd directory_;
};

}  // namespace nodestage
