// PendingName: a name in a target directory that becomes complete at once, by rename, or never.
#pragma once

#include <cstdint>
#include <string>

#include "common/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// Owns one temporary name, ".nodestage-<job>-<random>.tmp", in a directory; what is made under it
// is removed unless commit() succeeded. dir_fd is borrowed.
class PendingName {
 public:
  PendingName(int dir_fd, std::uint32_t job);
  PendingName(const PendingName&) = delete;
  PendingName& operator=(const PendingName&) = delete;
  ~PendingName();

  [[nodiscard]] const char* c_str() const { return temporary_.c_str(); }

  // Makes it as an empty file, open for writing.
  Result<Fd> create_file(unsigned mode) const;

  // Replaces `name`. EISDIR when that is a directory.
  Status commit(const std::string& name) const;

 private:
  int dir_fd_;
  std::string temporary_;
};

// Closes `file` and tells what close() reports: some file systems (NFS) tell of a full quota only
// there.
Status close_checked(Fd file);

}  // namespace nodestage
