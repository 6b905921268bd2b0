// CopyOut: copies trees and single entries into a target that others may be reading. Every file and
// link appears under its name at once and complete, and replaces what was there.
//
//  - Kept: content, holes, mode (without set-id bits), mtime, links as links, and hard links within
//    one tree if the file system can. Not kept: owner, ACLs, extended attributes. Left out and
//    counted: sockets, FIFOs, devices.
//  - An existing directory keeps its mode. A directory that this or an earlier try created gets the
//    source's mode and mtime, and keeps the set-group-id bit that it inherited. Its mode is 01700
//    while it is filled for the first time. A finished one looks as its source does, and has the
//    sticky bit as well while a later try fills it again. That, or the list of deliveries, is how
//    each is recognized.
//  - The target of contents(), if this or an earlier try created it, gets the source's mode as
//    `cp -r` gives it: less the umask, or what the default ACL of its parent denies. Nobody sees
//    more of it meanwhile (mode_while_filled()).
//  - Links into the job directory become what output_links.hpp says.
//  - If the target's file system refuses modes or times, the rest is still delivered.
//  - Below the target no link is followed, and attributes are set by descriptors: others may write
//    there, too, and put their own entries under our names.
#pragma once

#include <sys/stat.h>

#include <set>
#include <string>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

// What is copied, as an argument of a call: it borrows everything.
struct OutEntry {
  const SourceEntry& source;
  const std::string& path;  // of the copy, below the target
  const struct stat& info;  // how the source looked

  [[nodiscard]] std::string name() const { return std::string(split_path(path).name); }
};

// A directory in the target.
struct CopyInto {
  int fd;            // borrowed
  bool& is_changed;  // set when a name was made there
};

// Gives a complete copy, which looks as `copy`, its name in a directory of the target. A fault:
// something else has it that must stay.
Status give_name(const PendingName& pending, int into_fd, const std::string& name,
                 const struct stat& copy, const CopyScope& scope);

// DeliverLeaf: copies single files and links into directories of the target. Each replaces what was
// there, or leaves that (CopyScope::replaces_only). Hard links are kept between the entries of one
// DeliverLeaf.
class DeliverLeaf {
 public:
  // Borrows everything. The paths of all calls begin at the directory `target`.
  DeliverLeaf(int target, const PendingNames& names, const CopyScope& scope, OutputReport& report,
              KeptAttributes& attributes, SyncCrew& syncs)
      : target_(target),
        names_(names),
        scope_(scope),
        report_(report),
        attributes_(attributes),
        syncs_(syncs) {}

  // Copies a file or link into a directory of the target, unless the scope leaves it out. The
  // report counts what came of it.
  Status copy(const OutEntry& entry, CopyInto into);

  // Makes a link with that text in the place of one that looked as `info`; `path` is that below the
  // target. The list does not get it, since what it must lead to depends on other entries. One that
  // is there counts as unchanged for a scope with a list.
  Status put_link(const std::string& text, CopyInto into, const std::string& path,
                  const struct stat& info);

 private:
  enum class Copied { whole, so_far, unsettled, vanished };
  [[nodiscard]] bool is_delivered(const OutEntry& entry, int target_fd) const;
  Result<Copied> make(const OutEntry& entry, CopyInto into);
  Result<Copied> file(const OutEntry& entry, CopyInto into);
  Result<Copied> log_so_far(int from, CopyInto into, const std::string& path);
  Status final_file(int from, CopyInto into, const std::string& path);
  // What becomes of a file that only grows while it is copied.
  enum class Growing { refused, kept };
  // Returns whether it has grown meanwhile, and has what was in it before.
  Result<bool> write_file(int from, CopyInto into, const std::string& path, const struct stat& info,
                          const SettledFile* settled, Growing growing);
  Result<Copied> link(const OutEntry& entry, CopyInto into) const;
  Status make_link(const std::string& text, CopyInto into, const std::string& path,
                   const struct stat& info) const;
  Status hard_link(const HardLinks::First& first, CopyInto into, const std::string& path) const;
  Status commit(const PendingName& pending, int into_fd, const std::string& path,
                const struct stat& copy) const;

  int target_;
  const PendingNames& names_;
  const CopyScope& scope_;
  OutputReport& report_;
  KeptAttributes& attributes_;
  SyncCrew& syncs_;
  HardLinks links_;                    // with names below the target
  std::set<HardLinks::Id> unsettled_;  // of files with several links
};

// Returns the mode with which the target of contents() is created for a source that looks as
// `info`.
mode_t mode_while_filled(const struct stat& info);

// A failure of one entry goes to the report as a fault, and the copy continues. A call's Status is
// a fault only if continuing is pointless: the target is full, or a directory is out of reach.
class CopyOut {
 public:
  // Owns `target`, the directory into which everything is copied; O_PATH is enough.
  CopyOut(Fd target, PendingNames names, OutputReport& report, CopyScope scope = {});

  // Copies the contents of a directory, which looks as `info`, into the target. `origin` is before
  // their paths in those of scope.leaves_out: "" or "a/b/".
  Status contents(Fd directory, const struct stat& info, const std::string& origin = "");

  // Copies one entry of any kind into the target, as `name`. A link is followed only by
  // scope.links. `origin` is as for contents().
  Status entry(const SourceEntry& source, const std::string& name, const std::string& origin = "");

  // Brings everything written so far to stable storage. A fault says what was lost.
  Status sync();

  [[nodiscard]] int target() const { return target_.get(); }

 private:
  enum class Made { here, before };  // created by us, in this try or an earlier one
  struct Level;
  struct Descent;
  Result<Fd> make_directory(int target_fd, Level& level, const std::string& path) const;
  Status end_directory(int fd, const Level& level, const std::string& path,
                       const struct stat& info);
  bool begin_target(const struct stat& source);
  Status end_target(const struct stat& source);
  Status tree(Fd source, Descent& at, const std::string& prefix);
  Result<bool> reach(Descent& at);
  Status step(Descent& at, const WalkStep& step, const std::string& path);
  Status begin_directory(Descent& at, const WalkStep& step, const std::string& path);
  Status leave_directory(Descent& at, const std::string& path, const struct stat& info);
  Status leaf_or_link(Descent& at, const OutEntry& entry);
  Status leaf(Descent& at, const OutEntry& entry);
  Status link(Descent& at, const OutEntry& entry);
  Status what_is_led_to(Descent& at, const LinkFate& fate, const std::string& path);
  Status kept_link(Descent& at, const OutEntry& entry);
  Status other_link(Descent& at, const LinkFate& fate, const OutEntry& entry);
  Status directory(const OutEntry& entry, CopyInto into);
  void remove_own_link(int target_fd, const std::string& name) const;
  bool may_stay_closed(const std::string& path, const struct stat& info) const;
  bool is_target(const struct stat& info) const;
  Status check(const std::string& path, const Status& status);

  Fd target_;
  HardLinks::Id target_id_ = {};
  PendingNames names_;
  SyncCrew syncs_;
  OutputReport& report_;
  CopyScope scope_;
  KeptAttributes attributes_;
  DeliverLeaf leaves_;
  bool is_changed_ = false;  // a name was made in the target itself
  LeftOut left_out_;         // of the tree that is copied
  unsigned depth_ = 0;       // of directories in the places of links, in each other
};

}  // namespace nodestage
