#include "daemon/worker/file_sink.hpp"

#include <unistd.h>

#include <algorithm>

namespace nodestage {

Status FileSink::write(std::uint64_t offset, Bytes data) {
  TRY(count(offset, data.size()));
  while (!data.empty()) {
    const ssize_t written = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      failed_to_write_ = true;
      return Error{errno, std::strerror(errno)};
    }
    data = data.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status FileSink::count(std::uint64_t offset, std::uint64_t bytes) {
  TRY(meter_.check());
  if (offset > size_ || bytes > size_ - offset) {
    return fault(EFBIG, "holds more than the archive tells of it", "Make the archive again");
  }
  end_ = std::max(end_, offset + bytes);
  meter_.bytes_written += bytes;
  return {};
}

}  // namespace nodestage
