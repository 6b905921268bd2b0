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
#include "daemon/worker/file_sink.hpp"
#include "daemon/worker/meter.hpp"
#include "daemon/worker/space.hpp"

namespace nodestage {

struct TreeWriterLimits {
  unsigned threads = 1;                                // at most, beside the caller's
  std::size_t queued = std::size_t{64} * 1024 * 1024;  // bytes of data on their way to them
};

class TreeWriter {
 public:
  // Borrows all; root_fd may be O_PATH. The process's umask must be `umask`. No fault of a call is
  // the last word: the caller destroys the writer, which stops and ends its threads.
  TreeWriter(int root_fd, mode_t umask, Meter& meter, Space& space, TreeWriterLimits limits);
  TreeWriter(const TreeWriter&) = delete;
  TreeWriter& operator=(const TreeWriter&) = delete;
  ~TreeWriter();

  // One thread calls these, in the archive's order. entry.name and a hard link's entry.link are
  // cleaned names below the root ("" is the root). They return before all is done: a fault may be
  // that of an earlier entry, which failed_entry() then names.
  Status add(const Entry& entry);
  // Data of the file (or late data of the hard link) that was added last.
  Status write(std::uint64_t offset, Slice data);
  // A file whose data a writer fetches; `from` is borrowed until finish().
  Status add(const Entry& entry, const EntryData& from, std::uint64_t id);

  // Once, after the last entry: waits for all writers, then gives directories their modes and
  // times.
  Status finish();

  // After a fault: the name of the entry that it is about, "" for one that names its own; null: the
  // entry that was added last.
  [[nodiscard]] const std::string* failed_entry() const;

  [[nodiscard]] unsigned skipped() const { return skipped_; }  // devices and sockets

 private:
  struct Attributes {
    mode_t mode;
    std::optional<timespec> mtime;
  };

  Result<int> parent_of(const Entry& entry);
  Status add_directory(int parent, const std::string& name, const Entry& entry);
  Status add_file(int parent, const std::string& name, const Entry& entry);
  Status add_hard_link(int parent, const std::string& name, const Entry& entry);
  Status end_file();
  Status add_special(int parent, const std::string& name, const Entry& entry);
  Status open_late_data(int parent, const std::string& name, const Entry& entry);
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
  Entry entry_;  // added last
  Fd file_;      // of it
  std::optional<FileSink> sink_;
  unsigned skipped_ = 0;
};

}  // namespace nodestage
