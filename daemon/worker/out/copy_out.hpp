// CopyOut: copies trees and single entries into a target that others may be reading: every file and
// link appears under its name at once and complete, replacing what was there.
//
// Kept: content, holes, mode (without set-id bits), mtime, links as links, hard links within one
// tree where the file system can. Not kept: owner, ACLs, extended attributes. Left out and counted:
// sockets, FIFOs, devices. A directory that is there already keeps its mode; one that is made gets
// the source's mode and mtime, and keeps the set-group-id bit it inherited, and so does one that an
// earlier try has made. While one is filled its mode is 01700; one that an earlier try had
// finished, which looks as its source does, has the sticky bit besides its own mode. Where the
// target's file system refuses modes or times the rest is delivered. Below the target no link is
// followed, and what is set is set by descriptors: others may write there, too, and put their names
// in the place of ours.
#pragma once

#include <cstdint>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/worker/out/output_report.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/hard_links.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/sync_crew.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

// What fails for one entry goes to the report as a fault and the copy goes on. The Status of each
// call is a fault only when going on is pointless: the target is full, or the way is lost.
class CopyOut {
 public:
  // `target`: the directory all of this copies into, owned, may be O_PATH.
  CopyOut(Fd target, PendingNames names, OutputReport& report);

  // The contents of a directory into the target.
  Status contents(Fd directory);

  // One entry of any kind into the target, as `name`.
  Status entry(const SourceEntry& source, const std::string& name);

  // Everything written so far is on stable storage, or a fault tells of what was lost.
  Status sync();

 private:
  enum class Made { here, before };  // by us, in this try or an earlier one
  struct Descent;
  static Result<Made> make_directory(int target_fd, const std::string& name,
                                     const struct stat& source, Fd& fd);
  Status end_directory(int fd, Made made, const struct stat& info);
  Status keep(const char* what, int code);
  Status tree(Fd source, Fd target, const std::string& prefix);
  Status step(Descent& at, const WalkStep& step, const std::string& path);
  Status directory(const SourceEntry& source, const std::string& name, const struct stat& info);
  Status leaf(const SourceEntry& source, int target_fd, const std::string& name,
              const std::string& path, const struct stat& info);
  Status file(const SourceEntry& source, int target_fd, const std::string& name,
              const struct stat& info);
  Status link(const SourceEntry& source, int target_fd, const std::string& name,
              const struct stat& info) const;
  Status hard_link(const HardLinks::First& first, int target_fd, const std::string& name) const;
  bool is_target(const struct stat& info) const;
  Status check(const std::string& path, const Status& status);

  Fd target_;
  PendingNames names_;
  SyncCrew syncs_;
  bool refuses_ = false;  // modes or times; told once
  OutputReport& report_;
  HardLinks links_;  // names below the target
};

}  // namespace nodestage
