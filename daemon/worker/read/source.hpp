// Source: a regular file to stage, or the parts of one, read with the rights of the job's user.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {

// Returns the fault for a failure to open or find `path`; `code` is errno's value.
Error open_fault(const std::string& path, int code);

// Returns the advice if a file system requires a ticket that this process lacks, or if too many
// files are open; `otherwise` for any other errno.
const char* advice_by_code(int code, const char* otherwise);

// Examines what a source path leads to, links followed. Faults include advice for the user.
Result<struct stat> examine_source(const std::string& path);

// Opens a directory source (O_PATH).
Result<Fd> open_source_directory(const std::string& path);

// One of the files that are read as one.
struct SourcePart {
  Fd fd;
  std::string path;
  struct stat info;
  std::uint64_t begin = 0;  // where it is in the whole

  [[nodiscard]] std::uint64_t size() const { return static_cast<std::uint64_t>(info.st_size); }
  [[nodiscard]] std::uint64_t end() const { return begin + size(); }
};

class PartRelays;

class Source {
 public:
  // Refuses what is no regular file; never blocks on a FIFO or device. The meter is borrowed.
  static Result<Source> open(const std::string& path, Meter& meter);
  // Of a regular file that is open already; the path is for faults. The meter is borrowed.
  static Result<Source> of_file(Fd fd, const std::string& path, Meter& meter);

  // Opens the parts of one file, in order. `path` is that file's, which need not exist.
  static Result<Source> join(const std::string& path, const std::vector<std::string>& parts,
                             Meter& meter);
  Source(Source&& other) noexcept;
  Source& operator=(Source&& other) noexcept;
  ~Source();

  // Reads from where the last read() ended. Fills all of `into` unless the end comes first.
  Result<std::size_t> read(std::span<std::byte> into);

  // Does the same at `offset`, without moving the position of read(). Any thread.
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) const;

  // Returns `size` bytes at `offset`; fewer only at the end. Any thread.
  [[nodiscard]] Result<std::string> text_at(std::uint64_t offset, std::uint64_t size) const;

  // Does the same as read_at() without counting it as progress and without paying the rate for it.
  // Where the source is relayed, it may wait for other nodes, until `given_up` is set or the worker
  // stops: then the fault is stopped().
  struct Fetched {
    std::size_t bytes = 0;
    std::size_t relayed = 0;  // of these, what cost nothing of the rate
  };
  Result<Fetched> fetch_at(std::uint64_t offset, std::span<std::byte> into,
                           const std::atomic<bool>& given_up) const;

  // Takes bytes from the relay worker where it has them, from now on; null: never. Nothing is read
  // beyond the size that the file had when it was opened.
  void relay(std::unique_ptr<RelayedSource> relayed) { relayed_ = std::move(relayed); }
  [[nodiscard]] RelayedSource* relayed() const { return relayed_.get(); }

  // Has `relay` (borrowed) begin the relay of what is read from `offset` on: at once or, of several
  // parts, of each when it is first read. end_relay() closes all; no thread reads then.
  void begin_relay(ItemRelay& relay, std::uint64_t offset);
  void end_relay();

  // At least one.
  [[nodiscard]] const std::vector<SourcePart>& parts() const { return parts_; }
  [[nodiscard]] bool is_joined() const { return parts_.size() > 1; }
  // The first part that was changed since it was opened; null: none was.
  [[nodiscard]] const SourcePart* changed() const;
  // The same after the last byte was read; may wait (file_data.hpp).
  [[nodiscard]] const SourcePart* changed(const SettleRules& rules) const;

  // Of the first part.
  [[nodiscard]] int fd() const { return parts_.front().fd.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  // The first part's, with the size of the whole.
  [[nodiscard]] const struct stat& info() const { return info_; }
  [[nodiscard]] std::uint64_t size() const { return static_cast<std::uint64_t>(info_.st_size); }
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] Meter& meter() const { return *meter_; }

 private:
  Source(std::string path, std::vector<SourcePart> parts, Meter& meter);

  Result<Fetched> fetch_joined(std::uint64_t offset, std::span<std::byte> into,
                               const std::atomic<bool>& given_up) const;
  Result<Fetched> fetch_part(std::size_t part, std::uint64_t offset, std::span<std::byte> into,
                             const std::atomic<bool>& given_up) const;
  // `offset` is one in the part. `relayed` is null if nothing of it is relayed.
  Result<Fetched> fetch_from(const SourcePart& of, RelayedSource* relayed, std::uint64_t offset,
                             std::span<std::byte> into, const std::atomic<bool>& given_up) const;
  Result<std::size_t> fetch_original(const SourcePart& part, std::uint64_t offset,
                                     std::span<std::byte> into) const;

  std::string path_;
  std::vector<SourcePart> parts_;
  struct stat info_;
  Meter* meter_;
  std::uint64_t position_ = 0;
  ItemRelay* relay_ = nullptr;              // that has begun it
  std::unique_ptr<RelayedSource> relayed_;  // null: every byte is the original's
  std::unique_ptr<PartRelays> relays_;      // the same of several parts
};

}  // namespace nodestage
