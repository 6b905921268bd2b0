// The data of one file: opening a source, finding the parts that contain data, a copy that keeps
// the holes, and the sink for a new file.
#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"

namespace nodestage {

// Whether what was read of a file is one of the versions that its program made: of any file that is
// copied, by a look after its last byte; of a running job's, by SettledFile, before its first, too.
struct SettleRules {
  using Time = std::chrono::milliseconds;

  Time quiet{10'000};    // how long a file that is held open for writing must not have changed
  Time tick{20};         // two changes within it may have one time
  Time between{1'000};   // before files that were being written are looked at again, or read again
  unsigned looks = 4;    // at each file
  Time young{250};       // a source that was changed within it is looked at again afterwards
  unsigned reads = 3;    // of a source that is changed while it is read
  Time removed{10'000};  // since the last removal in a directory: then it is over
  Time log{60'000};      // from when on a file of text that is still written is a log
  std::function<void(Time)> wait = [](Time time) { std::this_thread::sleep_for(time); };
};

const SettleRules& usual_settle_rules();

// Whether a file that is being written is a log: text that was begun long ago, of which readers use
// what there is. What a program has just begun to write is not whole without its end.
bool is_log(int fd, const SettleRules& rules);

// The fault of a read whose source does not hold still. It has no advice, since that differs.
inline constexpr int k_was_changed = EINPROGRESS;
Error was_changed();

// Returns whether the open file has the content that it had in `before`: the same size and the same
// times, but for the change time of one that got or lost a name.
bool is_unchanged(int fd, const struct stat& before);

// The same for a source of data, after its last byte was read. Writers pause between two writes: if
// the file was changed a moment ago, waits until it is no longer `young`, and looks again.
bool has_held_still(int fd, const struct stat& before, const SettleRules& rules);

// Whether some process has a file open for writing, or mapped so.
enum class Writers {
  none,
  some,
  unknown,  // the file is another user's, or its file system cannot say
};
// Asks the kernel about `fd`, which only the caller has open for reading. A process that opens the
// file for writing at this very moment waits for the end of this call. Needs SIGIO to be ignored.
Writers writers_of(int fd);

// The look at a file before it is copied.
class SettledFile {
 public:
  // Looks at `fd`, as above and borrowed. Returns nothing if the file is being written, or was a
  // moment ago, or is held open in a file system in memory, where later writes through a mapping
  // are not seen. May wait for rules.tick.
  static std::optional<SettledFile> look(int fd, const SettleRules& rules);

  [[nodiscard]] const struct stat& info() const { return info_; }

  // Returns whether the file still looks as it did.
  [[nodiscard]] bool is_same() const;
  // Returns, after it was read, whether what was read is whole.
  [[nodiscard]] bool was_whole() const;

 private:
  SettledFile(int fd, Writers writers, const struct stat& info)
      : fd_(fd), writers_(writers), info_(info) {}

  int fd_;
  Writers writers_;
  struct stat info_;
};

// Returns how long ago that was by the wall clock; negative for a time in the future.
SettleRules::Time age_of(const timespec& time);

struct DataRange {
  std::uint64_t begin;
  std::uint64_t end;
};

// Returns the first range of data at or after `offset`, within `size`; empty if only a hole is
// left. A file system without holes reports everything as data.
Result<std::optional<DataRange>> next_data(int fd, std::uint64_t offset, std::uint64_t size);

using OnBytes = std::function<Status(std::uint64_t)>;  // called for each block with its size

// Copies `size` bytes from the start of `from` to the empty file `to`; holes stay holes. A fault
// says whether reading or writing failed, is on_bytes' own, or was_changed().
Status copy_data(int from, int to, std::uint64_t size, const OnBytes& on_bytes);

// An entry to read: `path` below dir_fd (borrowed), opened with open_beneath. `follow`: 0, or
// O_NOFOLLOW to read a link itself.
struct SourceEntry {
  int dir_fd;
  std::string path;
  int follow;
};

// Opens a regular file for reading. If its owner, the caller, may not read it, it gets u+r while it
// is being opened.
Result<Fd> open_for_reading(const SourceEntry& source, const struct stat& info);

// The times that a copy of `source` gets, as utimensat() takes them: the access time stays.
std::array<timespec, 2> times_of(const struct stat& source);

// Returns the text of a symbolic link.
Result<std::string> read_link(const SourceEntry& source);

// The data of one new file that a writer's thread fetches itself.

// A new file, empty and open for writing, which has `size` bytes at the end. For one thread.
class FileSink {
 public:
  struct Options {
    Meter& meter;
    Space& space;                   // will_make() was called for the file
    const std::atomic<bool>& quit;  // another thread has failed
  };
  // Borrows everything.
  FileSink(int fd, std::uint64_t size, Options options) : fd_(fd), size_(size), options_(options) {}

  // Writes all of `data`; what no call covers stays a hole. Refuses data beyond the size. If the
  // file could not be written, an Error's `what` is errno's text alone.
  Status write(std::uint64_t offset, Bytes data);

  // Call count() first if you fill the file by other means (copy_file_range).
  [[nodiscard]] int fd() const { return fd_; }
  Status count(std::uint64_t offset, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }  // of what was written
  [[nodiscard]] bool failed_to_write() const { return failed_to_write_; }

 private:
  const int fd_;
  const std::uint64_t size_;
  const Options options_;
  std::uint64_t end_ = 0;
  bool failed_to_write_ = false;
};

// Writes all of `data` into any file. An Error's `what` is errno's text alone.
Status write_at(int fd, std::uint64_t offset, Bytes data);

// Whether the first `size` bytes of two files that do not change are the same; one that is shorter
// is not. Where a meter is given, the comparison stops with it.
Result<bool> have_same_bytes(int file, int other, std::uint64_t size, const Meter* meter = nullptr);

// The same for two entries: files or links. Their times and modes do not count.
Result<bool> have_same_content(const SourceEntry& one, const SourceEntry& other);

// Data that the writers' threads fetch, such as a zip's members.
class EntryData {
 public:
  EntryData() = default;
  EntryData(const EntryData&) = delete;
  EntryData& operator=(const EntryData&) = delete;
  virtual ~EntryData() = default;

  // Fills the file of the entry `id`; once for each. Any thread may call it, several at once for
  // different ids. Faults of the sink are forwarded unchanged; others are as in Entries.
  virtual Status write(std::uint64_t id, FileSink& sink) const = 0;
};

}  // namespace nodestage
