// TreeWriter: writes an archive's entries below a directory, as GNU tar does for a user without -p.
//
// Modes lose setuid, setgid, sticky and the umask's bits; owners are the caller's; times are kept
// to the nanosecond. Of two entries with one name the later one wins. Directories get their mode
// and time at the end. No link is ever followed, so an entry whose parent is a link is a fault.
#pragma once

#include <map>
#include <string>

#include "daemon/worker/below.hpp"
#include "daemon/worker/entries.hpp"
#include "daemon/worker/meter.hpp"
#include "daemon/worker/space.hpp"

namespace nodestage {

class TreeWriter {
 public:
  // Borrows all; root_fd may be O_PATH. The process's umask must be `umask`.
  TreeWriter(int root_fd, mode_t umask, Meter& meter, Space& space)
      : root_(root_fd), umask_(umask), meter_(meter), space_(space) {}

  // entry.name and a hard link's entry.link are cleaned names below the root ("" is the root);
  // the entry's data comes from `data`.
  Status add(const Entry& entry, Entries& data);

  // Once, after the last entry.
  Status finish();

  [[nodiscard]] unsigned skipped() const { return skipped_; }  // devices and sockets

 private:
  struct Attributes {
    mode_t mode;
    std::optional<timespec> mtime;
  };

  Result<int> parent_of(const Entry& entry);
  Status add_directory(int parent, const std::string& name, const Entry& entry);
  Status add_file(int parent, const std::string& name, const Entry& entry, Entries& data);
  Status add_hard_link(int parent, const std::string& name, const Entry& entry, Entries& data);
  Status add_special(int parent, const std::string& name, const Entry& entry);
  Status write_late_data(int parent, const std::string& name, const Entry& entry, Entries& data);
  Status write_data(Fd file, const Entry& entry, Entries& data, Block block);
  Status make_room(int parent, const std::string& name, const Entry& entry);
  Status set_directory(const std::string& path, const Attributes& attributes) const;
  [[nodiscard]] mode_t mode_of(const Entry& entry) const { return entry.mode & 0777 & ~umask_; }
  template <typename Make>
  Status make(int parent, const std::string& name, const Entry& entry, Make make);

  const int root_;
  const mode_t umask_;
  Meter& meter_;
  Space& space_;
  std::map<std::string, Attributes, std::less<>> directories_;
  std::string parent_path_;  // of parent_
  Fd parent_;
  unsigned skipped_ = 0;
};

}  // namespace nodestage
