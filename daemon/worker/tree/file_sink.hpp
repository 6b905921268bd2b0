// The data of one new file that a writer's thread fetches itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"

namespace nodestage {

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
