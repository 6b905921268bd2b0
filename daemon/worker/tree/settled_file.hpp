// Whether what was read of a file is one of the versions that its program made: of any file that is
// copied, by a look after its last byte; of a running job's, by SettledFile, before its first, too.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "common/result.hpp"

namespace nodestage {

struct SettleRules {
  using Time = std::chrono::milliseconds;

  Time quiet{10'000};   // how long a file that is held open for writing must not have changed
  Time tick{20};        // two changes within it may have one time
  Time between{1'000};  // before files that were being written are looked at again, or read again
  unsigned looks = 4;   // at each file
  Time young{250};      // a source that was changed within it is looked at again afterwards
  unsigned reads = 3;   // of a source that is changed while it is read
  std::function<void(Time)> wait = [](Time time) { std::this_thread::sleep_for(time); };
};

const SettleRules& usual_settle_rules();

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

}  // namespace nodestage
