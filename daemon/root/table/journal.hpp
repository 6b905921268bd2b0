// Journal: the jobs of this node on disk, so that a daemon can carry on where another stopped,
// however that ended: a daemon that is killed loses nothing that was written, a machine nothing
// that was durable.
//
//   STATE_DIR/jobs/<job>.<restart>.json      JobRecord, replaced atomically at every change
//   STATE_DIR/jobs/<job>.<restart>.request   the user's request, as it came; root reads it only
//                                            to hand it to a worker
//
// JSON, version 1; the keys are JobRecord's. Needs root. Test: tests/unit/test_journal.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/table/disk_thread.hpp"

namespace nodestage {

std::string encode_record(const JobRecord& record);
Result<JobRecord> decode_record(std::string_view json);

class Journal {
 public:
  static Result<Journal> open(const std::string& state_dir);

  // Lets a thread wait for the disk from now on, and not the caller. It must end first. It calls
  // `on_fault` for what it cannot make durable.
  void sync_by(DiskThread& disk) { disk_ = &disk; }
  using OnFault = std::function<void(const JobKey& key, const Error& fault)>;
  void set_on_fault(OnFault on_fault) { on_fault_ = std::move(on_fault); }

  // Writes the record, which is durable by then(). Call save_request() once, before the first
  // save().
  Status save(const JobRecord& record) const;
  Status save_request(const JobRecord& record) const;
  void forget(const JobKey& key) const;
  // Calls `done` when everything before it is durable, or has had its on_fault.
  void then(Loop::Callback done) const;

  struct Loaded {
    std::vector<JobRecord> records;
    std::vector<std::string> faults;  // files that could not be read; they are left in place
  };
  // Removes what a daemon that died had started to write. Nothing else may write meanwhile.
  [[nodiscard]] Loaded load() const;

 private:
  explicit Journal(Fd directory) : directory_(std::move(directory)) {}
  [[nodiscard]] bool is_half_written(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const;
  Status replace(const JobKey& key, const char* suffix, std::string_view data) const;
  Fd directory_;
  DiskThread* disk_ = nullptr;  // none: the caller waits
  OnFault on_fault_;
};

}  // namespace nodestage
