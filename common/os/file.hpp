// Reads, writes, and replaces whole small files. Every function retries EINTR.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/result.hpp"

namespace nodestage {

// Fd: the owner of one file descriptor.
// Move-only. Closes what it owns; -1 owns nothing. The code that opens a descriptor sets O_CLOEXEC.
class [[nodiscard]] Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) {
      ::close(fd_);
      fd_ = -1;
    }
  }

 private:
  int fd_ = -1;
};

// How a user's path is opened that may be of any kind: without waiting for a pipe's writer, and not
// as a terminal of this process.
inline constexpr int k_open_source = O_RDONLY | O_NONBLOCK | O_NOCTTY;

// Makes a directory if nothing has that name, and returns whether it did. It looks first: mkdir
// waits for the lock of the directory around it, also for a name that is there, and who may list
// that can hold its lock for as long as they like (by reading it into memory of a file system of
// theirs). dir_fd may be AT_FDCWD.
Result<bool> make_missing_directory(int dir_fd, const std::string& path, unsigned mode);

// Returns whether there is a directory, or a link to one.
bool leads_to_directory(const std::string& path);
// Returns whether there is an entry of that name, whatever it is. dir_fd may be AT_FDCWD.
bool has_entry(int dir_fd, const std::string& name);
// Returns the text of a symbolic link, or "" for anything else. dir_fd may be AT_FDCWD.
std::string link_text(int dir_fd, const std::string& path);
// Returns the path of an open file, as the kernel knows it now; "" if it has none.
std::string path_of(int fd);

// Opens with O_CLOEXEC. A fault's `what` starts with the path. dir_fd may be AT_FDCWD.
Result<Fd> open_at(int dir_fd, const std::string& path, int flags, unsigned mode = 0);

// Opens `path` below dir_fd. It cannot leave that directory by "..", an absolute name or a link
// (openat2 with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS and the flags in `resolve`).
Result<Fd> open_beneath(int dir_fd, const std::string& path, int flags, unsigned mode = 0,
                        unsigned long resolve = 0);

// Reads from the descriptor's offset (read_file: the start) to the end; EFBIG beyond max_bytes.
Result<std::string> read_all(int fd, std::size_t max_bytes);
Result<std::string> read_file(int dir_fd, const std::string& path, std::size_t max_bytes);

// Writes every byte or returns a fault.
Status write_all(int fd, std::span<const std::byte> data);
Status write_all(int fd, std::string_view data);

// Reads at `offset` until `into` is full or the file ends; returns the number of bytes. A fault has
// the code of the system call.
Result<std::size_t> pread_all(int fd, std::span<std::byte> into, std::uint64_t offset);
// Writes every byte at `offset` or returns a fault, likewise.
Status pwrite_all(int fd, std::span<const std::byte> data, std::uint64_t offset);
// The same; an error names `what` was written.
Status pwrite_all(int fd, std::span<const std::byte> data, std::uint64_t offset, const char* what);

// The bytes of a record, for these two.
template <typename Record>
requires std::is_trivially_copyable_v<Record> std::span<std::byte> record_bytes(Record& record) {
  return std::as_writable_bytes(std::span(&record, 1));
}
template <typename Record>
requires std::is_trivially_copyable_v<Record> std::span<const std::byte> record_bytes(
    const Record& record) {
  return std::as_bytes(std::span(&record, 1));
}

// Makes or empties `name` in dir_fd and writes it, unsynced. Removes it if that fails.
Status write_file(int dir_fd, const std::string& name, std::string_view data, unsigned mode);

// Replaces `name` in dir_fd atomically, for what counts until the machine stops: after a power
// loss, the file can be the old one, or empty.
Status replace_file_unsynced(int dir_fd, const std::string& name, std::string_view data,
                             unsigned mode);

// Replaces `name` in dir_fd atomically and durably: writes a temporary file, syncs it, renames it,
// and syncs the directory.
Status replace_file(int dir_fd, const std::string& name, std::string_view data, unsigned mode);

// DirectoryStream: reads the names in one directory, in the order of the file system.
// Move-only. If the directory cannot be opened, or not be read to its end, next() returns fewer
// names, and code() says why.
class [[nodiscard]] DirectoryStream {
 public:
  // Reads from the offset of `directory` on.
  explicit DirectoryStream(Fd directory);

  // Opens `path`, with an offset of its own.
  static DirectoryStream at(int dir_fd, const std::string& path = ".");

  // Returns the next name other than "." and "..", valid until the next call. Empty after the last
  // name and after a fault.
  std::optional<std::string_view> next();

  // Returns the errno value of the fault that ended the names early; 0: no fault so far.
  [[nodiscard]] int code() const { return code_; }

 private:
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  explicit DirectoryStream(int code) : code_(code) {}

  std::unique_ptr<DIR, Close> stream_;
  int code_ = 0;
};

// Returns the only name in a directory (borrowed); "" if there are more or none.
std::string only_name(int dir_fd);

}  // namespace nodestage
