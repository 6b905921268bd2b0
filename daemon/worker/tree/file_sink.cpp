#include "daemon/worker/tree/file_sink.hpp"

#include <unistd.h>

#include <algorithm>

namespace nodestage {
namespace {

// A write goes to one piece (a large folio) of the page cache if it starts at a multiple of its
// length, otherwise to four or five: archives' blocks end anywhere. Larger pieces took up to three
// times the processor time (docs/performance.md).
constexpr std::size_t k_write_bytes = std::size_t{32} * 1024;

}  // namespace

Status write_at(int fd, std::uint64_t offset, Bytes data) {
  while (!data.empty()) {
    const std::size_t step = std::min(data.size(), k_write_bytes - offset % k_write_bytes);
    const ssize_t written = ::pwrite(fd, data.data(), step, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error{errno, std::strerror(errno)};
    data = data.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status FileSink::write(std::uint64_t offset, Bytes data) {
  TRY(count(offset, data.size()));
  Status written = write_at(fd_, offset, data);
  failed_to_write_ = !written;
  return written;
}

Status FileSink::count(std::uint64_t offset, std::uint64_t bytes) {
  if (options_.quit) return stopped();
  TRY(options_.meter.check());
  if (offset > size_ || bytes > size_ - offset) {
    return fault(EFBIG, "is larger than the archive records", "Make the archive again");
  }
  TRY(options_.space.will_write(bytes));
  end_ = std::max(end_, offset + bytes);
  options_.meter.bytes_written += bytes;
  return {};
}

}  // namespace nodestage
