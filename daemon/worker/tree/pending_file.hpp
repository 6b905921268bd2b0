// PendingName: a name in a target directory that becomes complete at once, by rename, or never.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// The temporary names of one run of a job on one node:
//   .nodestage-<job>-<node and run><random>.tmp
struct PendingNames {
  std::string prefix;
  bool may_be_left = false;  // an earlier worker of the same run may have been killed
  std::function<void(const std::string& path)> before;  // called before each is used, unless empty
};
PendingNames pending_names(const OrderHead& order);
// After an earlier try, something may be left.
PendingNames pending_names(const DeliveryOrder& order);

// The mode of a directory in a target that is filled for the first time; the inherited set-group-id
// bit is added.
inline constexpr mode_t k_unfinished_directory = 01700;

// Removes what an earlier worker of the same run, if there was one, left in a directory. Names of
// other nodes and runs, which may be at work there, stay.
void remove_leftovers(int dir_fd, const PendingNames& names);

// Owns one temporary name in a directory. What is created under it is removed unless commit()
// succeeded. dir_fd is borrowed.
class PendingName {
 public:
  PendingName(int dir_fd, const PendingNames& names);
  PendingName(const PendingName&) = delete;
  PendingName& operator=(const PendingName&) = delete;
  ~PendingName();

  [[nodiscard]] const char* c_str() const { return temporary_.c_str(); }

  // Creates it as an empty file that is open for writing.
  Result<Fd> create_file(unsigned mode) const;

  // Replaces `name`. Fails with EISDIR if that is a directory.
  Status commit(const std::string& name) const;
  // Renames to `name`. Fails with EEXIST if that exists.
  Status commit_new(const std::string& name) const;

 private:
  int dir_fd_;
  std::string temporary_;
};

// Closes `file` and returns the fault of close(): some file systems (NFS) report a full quota only
// there.
Status close_checked(Fd file);

}  // namespace nodestage
