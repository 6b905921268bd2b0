// Reads, writes, and replaces whole small files. Every function retries EINTR.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// How a user's path is opened that may be of any kind: without waiting for a pipe's writer, and not
// as a terminal of this process.
inline constexpr int k_open_source = O_RDONLY | O_NONBLOCK | O_NOCTTY;

// Returns whether there is a directory, or a link to one.
bool leads_to_directory(const std::string& path);

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
requires std::is_trivially_copyable_v<Record> std::span<std::byte> bytes_of(Record& record) {
  return std::as_writable_bytes(std::span(&record, 1));
}
template <typename Record>
requires std::is_trivially_copyable_v<Record> std::span<const std::byte> bytes_of(
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

}  // namespace nodestage
