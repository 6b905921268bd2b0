// Copies one file's data into a new file, at once or in parts.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <string>
#include <string_view>

#include "common/os/file.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {

// CopyListener: learns of each entry of a tree once its copy is complete.
// Any thread calls it; no call may fail the copy. `path` is below the root of the copy, "" for the
// root itself, and `info` is that of the source. A file comes before its other links, and a
// directory after all that is in it.
class CopyListener {
 public:
  CopyListener() = default;
  CopyListener(const CopyListener&) = delete;
  CopyListener& operator=(const CopyListener&) = delete;
  virtual ~CopyListener() = default;

  // `fd` is the copy, open for reading, and borrowed.
  virtual void file(const std::string& path, int fd, const struct stat& info) = 0;
  virtual void directory(const std::string& path, int fd, const struct stat& info) = 0;
  virtual void symlink(const std::string& path, const std::string& target,
                       const struct stat& info) = 0;
  // `path` was made a link to the file or link at `first`.
  virtual void hard_link(const std::string& path, const std::string& first) = 0;
};

// CopyNotes: what is reported of a tree that was copied.
// For several threads.
struct CopyNotes {
  OutLinks out_links;
  UnreadableEntries unreadable;
  NamedCount growing;                // files that became longer whenever they were copied
  CopyListener* listener = nullptr;  // borrowed; null: nobody listens
};

class Source;

// Counts the extended attributes that the file system does not accept. For any thread.
struct XattrCopy {
  std::atomic<std::uint64_t> lost = 0;
};

struct FileToCopy {
  int fd;                                               // at any offset
  const struct stat& info;                              // of fd; info.st_size bytes are copied
  std::string_view name;                                // for messages
  enum class Mode { to_set, set } mode = Mode::to_set;  // set: the copy was created with its mode
  SourcePace* pace = nullptr;                           // records reads, unless null
  XattrCopy* xattrs = nullptr;                          // null: they are not kept
  const Source* relayed = nullptr;                      // null: all of it is read from fd
  // Counts what is read from fd, unless null.
  std::atomic<std::uint64_t>* from_storage = nullptr;
};

// Returns the mode of a copy: without the set-id bits.
inline mode_t mode_of_copy(const struct stat& info) { return info.st_mode & 01777; }

// Copies into `to`, which is empty and open for writing: data with holes (sharing blocks if the
// file system can), then extended attributes, mode (without set-id bits), and mtime, then a checked
// close. The fault is was_changed() (file_data.hpp) if the file became shorter; whether it was
// changed otherwise is for the caller to ask.
Status copy_file(const FileToCopy& from, Fd to, Meter& meter, Space& space);

// The first step of copy_file for several threads with one file, made by one of them. Returns
// whether the copy then has all its data.
Result<bool> share_blocks(const FileToCopy& from, int to, Meter& meter);
// The next step, if it has not: copies one part, which starts at a multiple of 4096.
Status copy_range(const FileToCopy& from, int to, DataRange range, Meter& meter, Space& space);
// The last step: sets attributes, mode and mtime, and closes the copy.
Status end_copy(const FileToCopy& from, Fd to, const Space& space);

// Copies the attributes of the open `from` to `to`, whose mode must be set afterwards. A fault
// means that they cannot be read; its `what` is the cause alone.
Status copy_xattrs(int from, int to, XattrCopy& copy);

// Copies mtime to a link or other entry; never follows it.
Status copy_times(int dir_fd, const char* name, const struct stat& info);

}  // namespace nodestage
