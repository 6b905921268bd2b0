#include "daemon/worker/tree/file_data.hpp"

#include <fcntl.h>

#include <algorithm>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/worker/tree/dir_stack.hpp"
#include "daemon/worker/tree/settled_file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_copy_bytes = 1 << 20;

// Reads or writes all of `bytes` at `offset`. False at the end of the file or on an error (errno).
template <typename Call, typename Byte>
bool transfer(Call call, int fd, Byte* data, std::size_t bytes, std::uint64_t offset) {
  while (bytes > 0) {
    const ssize_t count = call(fd, data, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = 0;
      return false;
    }
    data += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

Status copy_range(int from, int to, DataRange range, std::vector<char>& block,
                  const OnBytes& on_bytes) {
  while (range.begin < range.end) {
    const std::size_t bytes = std::min<std::uint64_t>(block.size(), range.end - range.begin);
    if (!transfer(::pread, from, block.data(), bytes, range.begin)) {
      if (errno == 0) return was_changed();  // it became shorter
      return system_error("cannot read");
    }
    if (!transfer(::pwrite, to, block.data(), bytes, range.begin)) {
      return system_error("cannot write");
    }
    TRY(on_bytes(bytes));
    range.begin += bytes;
  }
  return {};
}

}  // namespace

Result<std::optional<DataRange>> next_data(int fd, std::uint64_t offset, std::uint64_t size) {
  if (offset >= size) return std::optional<DataRange>();
  const off_t begin = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (begin < 0 && errno == ENXIO) return std::optional<DataRange>();
  if (begin < 0 && errno == EINVAL) return std::optional(DataRange{offset, size});
  if (begin < 0) return system_error("cannot read");
  const off_t end = ::lseek(fd, begin, SEEK_HOLE);
  if (end < 0) return system_error("cannot read");
  const DataRange range{static_cast<std::uint64_t>(begin),
                        std::min(static_cast<std::uint64_t>(end), size)};
  return range.begin < size ? std::optional(range) : std::nullopt;
}

Status copy_data(int from, int to, std::uint64_t size, const OnBytes& on_bytes) {
  std::vector<char> block(std::clamp<std::uint64_t>(size, 1, k_copy_bytes));
  std::uint64_t offset = 0;
  for (;;) {
    TRY_ASSIGN(const auto range, next_data(from, offset, size));
    if (!range) break;
    TRY(copy_range(from, to, *range, block, on_bytes));
    offset = range->end;
  }
  if (offset < size && ::ftruncate(to, static_cast<off_t>(size)) != 0) {
    return system_error("cannot write");
  }
  return {};
}

Result<Fd> open_for_reading(const SourceEntry& source, const struct stat& info) {
  const auto open = [&source](int flags) {
    return open_beneath(source.dir_fd, source.path, flags | source.follow);
  };
  auto fd = open(k_open_source);  // in case it is no longer a file
  if (!fd && fd.error().code == EACCES && info.st_uid == ::geteuid()) {
    TRY_ASSIGN(const Fd handle, open(O_PATH));
    const mode_t mode = info.st_mode & 07777;
    if (change_mode(handle.get(), mode | S_IRUSR)) {
      fd = open(k_open_source);
      static_cast<void>(change_mode(handle.get(), mode));
    }
  }
  if (!fd) return system_error("cannot read", fd.error().code);
  return fd;
}

std::array<timespec, 2> times_of(const struct stat& source) {
  return {timespec{0, UTIME_OMIT}, source.st_mtim};
}

Result<std::string> read_link(const SourceEntry& source) {
  char text[4096];  // PATH_MAX, the most that a link can hold
  const ssize_t length = ::readlinkat(source.dir_fd, source.path.c_str(), text, sizeof text);
  if (length < 0) return system_error("cannot read");
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace nodestage
