// SettledFile: finds out whether a file of a running job is whole, so that a copy is one of the
// versions that its program made.
#pragma once

#include <sys/stat.h>

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
  Time between{1'000};  // before files that were being written are looked at again
  unsigned looks = 4;   // at each file
  std::function<void(Time)> wait = [](Time time) { std::this_thread::sleep_for(time); };
};

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
