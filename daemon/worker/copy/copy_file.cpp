#include "daemon/worker/copy/copy_file.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {
namespace {

Result<Xattrs> xattrs_of(const FileToCopy& from) {
  auto xattrs = read_xattrs(from.fd);
  if (xattrs) return xattrs;
  return fault(
      xattrs.error().code,
      shown(from.name) + ": its extended attributes cannot be read: " + xattrs.error().text(),
      "Test it: getfattr -d -m - FILE");
}

// Names the source in full and the copy by its last component: the copy is what cannot be written.
Error copy_fault(const Space& space, std::string_view source, int code) {
  return with_prefix(space.explain(source.substr(source.rfind('/') + 1), code),
                     shown(source) + ": ");
}

constexpr std::size_t k_copy_block_bytes = std::size_t{1024} * 1024;
constexpr std::uint64_t k_kernel_bytes = 8ULL * 1024 * 1024;
constexpr std::uint64_t k_small_bytes = 256ULL * 1024;  // read and write are faster

// One per thread, for all its files.
thread_local std::vector<std::byte> thread_block;

class Copy {
 public:
  Copy(const FileToCopy& from, int to, Meter& meter, Space& space)
      : from_(from), to_(to), meter_(meter), space_(space) {}

  Status range(DataRange wanted) {
    std::uint64_t offset = wanted.begin;
    while (offset < wanted.end) {
      TRY_ASSIGN(const auto data, next(offset, wanted.end));
      const std::uint64_t hole_end = data ? data->begin : wanted.end;
      meter_.bytes_read += hole_end - offset;
      if (from_.relayed != nullptr) from_.relayed->relayed()->skip_to(hole_end);
      if (!data) return end_hole(wanted.end);
      TRY(copy(*data));
      offset = data->end;
    }
    return {};
  }

 private:
  // A hole at the end of the file is made by setting the size.
  [[nodiscard]] Status end_hole(std::uint64_t end) const {
    const bool is_last = end == static_cast<std::uint64_t>(from_.info.st_size);
    if (is_last && ::ftruncate(to_, from_.info.st_size) != 0) return write_fault(errno);
    return {};
  }

  // A file that has all of its blocks needs no search for holes.
  Result<std::optional<DataRange>> next(std::uint64_t offset, std::uint64_t end) {
    if (from_.info.st_blocks * 512 >= from_.info.st_size) {
      return std::optional(DataRange{offset, end});
    }
    auto range = next_data(from_.fd, offset, end);
    if (!range) return read_fault(range.error().code);
    return range;
  }

  Status copy(DataRange range) {
    while (range.begin < range.end) {
      if (reserved_ == 0) TRY(reserve(std::min(k_kernel_bytes, range.end - range.begin)));
      const DataRange part{range.begin, range.begin + reserved_};
      TRY_ASSIGN(const std::uint64_t bytes, copy_part(part));
      reserved_ -= bytes;
      range.begin += bytes;
    }
    return {};
  }

  // Reserves room for what is copied next, perhaps in several parts.
  Status reserve(std::uint64_t bytes) {
    Status enough = space_.will_write(bytes);
    if (enough) reserved_ = bytes;
    if (enough || is_stopped(enough.error())) return enough;
    return with_prefix(std::move(enough.error()), shown(from_.name) + ": ");
  }

  // Returns how much of the part it has copied, and counted.
  Result<std::uint64_t> copy_part(DataRange part) {
    if (from_.relayed != nullptr) return copy_relayed(part);
    TRY_ASSIGN(const std::uint64_t bytes, kernel_ ? copy_in_kernel(part) : copy_block(part));
    TRY(meter_.count_read(bytes));
    if (from_.from_storage != nullptr) *from_.from_storage += bytes;
    meter_.bytes_written += bytes;
    return bytes;
  }

  Result<std::uint64_t> copy_relayed(DataRange range) {
    const std::size_t wanted = std::min<std::uint64_t>(k_copy_block_bytes, range.end - range.begin);
    thread_block.resize(std::max(thread_block.size(), wanted));
    const std::span<std::byte> into(thread_block.data(), wanted);
    TRY_ASSIGN(const std::size_t bytes, from_.relayed->read_at(range.begin, into));
    if (bytes == 0) return read_fault(0);
    const Status written = write_at(to_, range.begin, into.first(bytes));
    if (!written) return write_fault(written.error().code);
    meter_.bytes_written += bytes;
    return std::uint64_t{bytes};
  }

  // Any fault here is left to the other way of copying, which reports more.
  Result<std::uint64_t> copy_in_kernel(DataRange range) {
    auto in = static_cast<off_t>(range.begin);
    auto out = in;
    const std::size_t wanted = std::min<std::uint64_t>(k_kernel_bytes, range.end - range.begin);
    const ssize_t count = ::copy_file_range(from_.fd, &in, to_, &out, wanted, 0);
    if (count > 0) return static_cast<std::uint64_t>(count);
    kernel_ = false;
    return copy_block(range);
  }

  Result<std::uint64_t> copy_block(DataRange range) {
    const std::size_t wanted = std::min<std::uint64_t>(k_copy_block_bytes, range.end - range.begin);
    thread_block.resize(std::max(thread_block.size(), wanted));
    const auto asked = SourcePace::Clock::now();
    const ssize_t count =
        ::pread(from_.fd, thread_block.data(), wanted, static_cast<off_t>(range.begin));
    if (count < 0 && errno == EINTR) return std::uint64_t{0};
    if (count <= 0) return read_fault(count == 0 ? 0 : errno);
    if (from_.pace != nullptr) from_.pace->add(asked, static_cast<std::uint64_t>(count));
    const Bytes data = Bytes(thread_block).first(static_cast<std::size_t>(count));
    const Status written = write_at(to_, range.begin, data);
    if (!written) return write_fault(written.error().code);
    return static_cast<std::uint64_t>(count);
  }

  [[nodiscard]] Error read_fault(int code) const {
    if (code == 0) return was_changed();  // it became shorter
    return fault(code, shown(from_.name) + ": cannot be read: " + std::strerror(code),
                 advice_by_code(code, "Test it: cat FILE > /dev/null"));
  }
  [[nodiscard]] Error write_fault(int code) const { return copy_fault(space_, from_.name, code); }

  const FileToCopy& from_;
  const int to_;
  Meter& meter_;
  Space& space_;
  std::uint64_t reserved_ = 0;  // of the local disk, and not copied yet
  // Whether copy_file_range is worthwhile and has not failed yet.
  bool kernel_ = static_cast<std::uint64_t>(from_.info.st_size) > k_small_bytes;
};

}  // namespace

Result<bool> share_blocks(const FileToCopy& from, int to, Meter& meter) {
  const auto size = static_cast<std::uint64_t>(from.info.st_size);
  if (size <= k_copy_block_bytes || from.relayed != nullptr || ::ioctl(to, FICLONE, from.fd) != 0)
    return false;
  TRY(meter.count_read(size));
  meter.bytes_written += size;
  return true;
}

Status copy_range(const FileToCopy& from, int to, DataRange range, Meter& meter, Space& space) {
  return Copy(from, to, meter, space).range(range);
}

Status copy_xattrs(int from, int to, XattrCopy& copy) {
  TRY_ASSIGN(const Xattrs xattrs, read_xattrs(from));
  if (!xattrs.empty()) copy.lost += set_xattrs(to, xattrs);
  return {};
}

// The mode comes last: it may deny writing, and an ACL changes it.
Status end_copy(const FileToCopy& from, Fd to, const Space& space) {
  bool has_mode = from.mode == FileToCopy::Mode::set;
  if (from.xattrs != nullptr) {
    TRY_ASSIGN(const Xattrs xattrs, xattrs_of(from));
    if (!xattrs.empty()) {
      if (::fchmod(to.get(), 0600) != 0) return copy_fault(space, from.name, errno);
      from.xattrs->lost += set_xattrs(to.get(), xattrs);
      has_mode = false;
    }
  }
  if (!has_mode && ::fchmod(to.get(), mode_of_copy(from.info)) != 0)
    return copy_fault(space, from.name, errno);
  if (::futimens(to.get(), times_of(from.info).data()) != 0)
    return copy_fault(space, from.name, errno);
  const Status closed = close_checked(std::move(to));
  return closed ? closed : Status(copy_fault(space, from.name, closed.error().code));
}

Status copy_file(const FileToCopy& from, Fd to, Meter& meter, Space& space) {
  TRY_ASSIGN(const bool is_shared, share_blocks(from, to.get(), meter));
  if (!is_shared) {
    const auto size = static_cast<std::uint64_t>(from.info.st_size);
    TRY(copy_range(from, to.get(), {0, size}, meter, space));
  }
  return end_copy(from, std::move(to), space);
}

Status copy_times(int dir_fd, const char* name, const struct stat& info) {
  const int flags = *name == '\0' ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
  if (::utimensat(dir_fd, name, times_of(info).data(), flags) == 0) return {};
  return Error{errno, std::strerror(errno)};
}

}  // namespace nodestage
