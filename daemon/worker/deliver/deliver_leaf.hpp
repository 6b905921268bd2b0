// DeliverLeaf: copies single files and links into directories of a target that others may be
// reading. Each appears under its name at once and complete, and replaces what was there, or
// leaves that (CopyScope::replaces_only).
//
// Kept: content, holes, mode (without set-id bits), mtime, links as links, and hard links between
// the entries of one DeliverLeaf if the file system can. No link is followed in the target, and
// attributes are set by descriptors: others may write there, too.
#pragma once

#include <sys/stat.h>

#include <set>
#include <string>

#include "common/result.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/hard_links.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {

// A directory in the target.
struct CopyInto {
  int fd;            // borrowed
  bool& is_changed;  // set when a name was made there
};

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

  // Copies the file or link `source`, which looked as `info`, into a directory of the target as
  // `name`, unless the scope leaves it out. `path` is that below the target. The report counts what
  // came of it.
  Status copy(const SourceEntry& source, CopyInto into, const std::string& name,
              const std::string& path, const struct stat& info);

  // Makes a link with that text in the place of one that looked as `info`. The list does not get
  // it, since what it must lead to depends on other entries. One that is there counts as unchanged
  // for a scope with a list.
  Status put_link(const std::string& text, CopyInto into, const std::string& name,
                  const struct stat& info);

 private:
  enum class Copied { whole, so_far, unsettled, vanished };
  bool is_delivered(const SourceEntry& source, int target_fd, const std::string& name,
                    const std::string& path, const struct stat& info) const;
  Result<Copied> entry(const SourceEntry& source, CopyInto into, const std::string& name,
                       const std::string& path, const struct stat& info);
  Result<Copied> file(const SourceEntry& source, CopyInto into, const std::string& name,
                      const std::string& path, const struct stat& info);
  Result<Copied> log_so_far(int from, CopyInto into, const std::string& name,
                            const std::string& path);
  Status final_file(int from, CopyInto into, const std::string& name, const std::string& path);
  // What becomes of a file that only grows while it is copied.
  enum class Growing { refused, kept };
  // Returns whether it has grown meanwhile, and has what was in it before.
  Result<bool> write_file(int from, CopyInto into, const std::string& name, const struct stat& info,
                          const SettledFile* settled, Growing growing);
  Result<Copied> link(const SourceEntry& source, CopyInto into, const std::string& name,
                      const std::string& path, const struct stat& info) const;
  Status make_link(const std::string& text, CopyInto into, const std::string& name,
                   const struct stat& info) const;
  Status hard_link(const HardLinks::First& first, CopyInto into, const std::string& name) const;
  Status commit(const PendingName& pending, int into_fd, const std::string& name) const;

  int target_;
  const PendingNames& names_;
  const CopyScope& scope_;
  OutputReport& report_;
  KeptAttributes& attributes_;
  SyncCrew& syncs_;
  HardLinks links_;                    // with names below the target
  std::set<HardLinks::Id> unsettled_;  // of files with several links
};

}  // namespace nodestage
