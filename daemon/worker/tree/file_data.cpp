#include "daemon/worker/tree/file_data.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <span>
#include <vector>

#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

using Time = SettleRules::Time;

bool is_equal(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool have_same_content(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         is_equal(a.st_mtim, b.st_mtim);
}

// Returns whether a write through a mapping changes the file's time after an fdatasync(). It does
// not where nothing is ever written back: only the first write of each page does.
bool shows_mapped_writes(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return false;
  const auto type = static_cast<std::uint32_t>(system.f_type);
  return type != TMPFS_MAGIC && type != RAMFS_MAGIC && type != HUGETLBFS_MAGIC;
}

constexpr std::size_t k_copy_bytes = 1 << 20;

Status copy_range(int from, int to, DataRange range, std::span<std::byte> block,
                  const OnBytes& on_bytes) {
  while (range.begin < range.end) {
    const auto part = block.first(std::min<std::uint64_t>(block.size(), range.end - range.begin));
    const auto count = pread_all(from, part, range.begin);
    if (!count) return system_error("cannot read", count.error().code);
    if (*count < part.size()) return was_changed();  // it became shorter
    TRY(pwrite_all(to, part, range.begin, "cannot write"));
    TRY(on_bytes(part.size()));
    range.begin += part.size();
  }
  return {};
}

// A write goes to one piece (a large folio) of the page cache if it starts at a multiple of its
// length, otherwise to four or five: archives' blocks end anywhere. Larger pieces took up to three
// times the processor time (docs/performance.md).
constexpr std::size_t k_write_bytes = std::size_t{32} * 1024;

}  // namespace

Time age_of(const timespec& time) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::chrono::duration_cast<Time>(std::chrono::seconds(now.tv_sec - time.tv_sec) +
                                          std::chrono::nanoseconds(now.tv_nsec - time.tv_nsec));
}

const SettleRules& usual_settle_rules() {
  static const SettleRules k_usual;
  return k_usual;
}

Error was_changed() { return Error{k_was_changed, "was changed while it was read"}; }

bool is_unchanged(int fd, const struct stat& before) {
  struct stat now {};
  return ::fstat(fd, &now) == 0 && have_same_content(now, before) &&
         (is_equal(now.st_ctim, before.st_ctim) || now.st_nlink != before.st_nlink);
}

// A time in the future is that of another clock, which says nothing.
bool has_held_still(int fd, const struct stat& before, const SettleRules& rules) {
  if (!is_unchanged(fd, before)) return false;
  const Time age = age_of(before.st_ctim);
  if (age < Time(0) || age >= rules.young) return true;
  rules.wait(rules.young - age);
  return is_unchanged(fd, before);
}

bool is_log(int fd, const SettleRules& rules) {
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &info) != 0 || (info.stx_mask & STATX_BTIME) == 0)
    return false;
  if (age_of({info.stx_btime.tv_sec, info.stx_btime.tv_nsec}) < rules.log) return false;
  std::array<char, 4096> start{};
  const ssize_t count = ::pread(fd, start.data(), start.size(), 0);
  return count > 0 &&
         std::find(start.begin(), start.begin() + count, '\0') == start.begin() + count;
}

// The kernel grants a lease for reading only if no process can write.
Writers writers_of(int fd) {
  if (::fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
    return errno == EAGAIN ? Writers::some : Writers::unknown;
  static_cast<void>(::fcntl(fd, F_SETLEASE, F_UNLCK));
  return Writers::none;
}

std::optional<SettledFile> SettledFile::look(int fd, const SettleRules& rules) {
  const Writers writers = writers_of(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const SettledFile file(fd, writers, info);
  if (writers == Writers::none) {
    // One wait will do: what is written after it has another time.
    if (age_of(info.st_ctim) < rules.tick) rules.wait(rules.tick);
  } else {
    if (std::min(age_of(info.st_mtim), age_of(info.st_ctim)) < rules.quiet) return {};
    if (!shows_mapped_writes(fd)) return {};
    // Later writes through a mapping change the file's time only if its pages are clean.
    if (::fdatasync(fd) != 0 && errno != EINVAL && errno != EROFS) return {};
  }
  if (!file.is_same()) return {};
  return file;
}

// One that was replaced is whole, and yet not what the output has now.
bool SettledFile::is_same() const {
  struct stat now {};
  return ::fstat(fd_, &now) == 0 && have_same_content(now, info_) &&
         is_equal(now.st_ctim, info_.st_ctim);
}

bool SettledFile::was_whole() const {
  // The order counts: a process that closed it before the first call has changed what the second
  // one sees.
  if (writers_ == Writers::none && writers_of(fd_) == Writers::some) return false;
  return is_same();
}

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
  std::vector<std::byte> block(std::clamp<std::uint64_t>(size, 1, k_copy_bytes));
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

Result<bool> have_same_bytes(int file, int other, std::uint64_t size, const Meter* meter) {
  constexpr std::uint64_t k_compared = std::uint64_t{256} << 10;
  std::vector<std::byte> memory(2 * std::min(size, k_compared));
  const std::span<std::byte> all(memory);
  for (std::uint64_t at = 0; at < size; at += k_compared) {
    if (meter != nullptr) TRY(meter->check());
    const std::size_t bytes = std::min(k_compared, size - at);
    const auto one = all.first(bytes);
    const auto two = all.last(bytes);
    TRY_ASSIGN(const std::size_t read, pread_all(file, one, at));
    TRY_ASSIGN(const std::size_t other_read, pread_all(other, two, at));
    if (read != bytes || other_read != bytes) return false;
    if (!std::ranges::equal(one, two)) return false;
  }
  return true;
}

Result<bool> have_same_content(const SourceEntry& one, const SourceEntry& other) {
  struct stat info {};
  struct stat other_info {};
  if (::fstatat(one.dir_fd, one.path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::fstatat(other.dir_fd, other.path.c_str(), &other_info, AT_SYMLINK_NOFOLLOW) != 0)
    return system_error("cannot look at what is in the target");
  const bool is_alike = (info.st_mode & S_IFMT) == (other_info.st_mode & S_IFMT) &&
                        info.st_size == other_info.st_size;
  if (!is_alike || (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))) return false;
  if (S_ISREG(info.st_mode)) {
    TRY_ASSIGN(const Fd file, open_for_reading(one, info));
    TRY_ASSIGN(const Fd other_file, open_for_reading(other, other_info));
    return have_same_bytes(file.get(), other_file.get(), static_cast<std::uint64_t>(info.st_size));
  }
  TRY_ASSIGN(const std::string text, read_link(one));
  TRY_ASSIGN(const std::string other_text, read_link(other));
  return text == other_text;
}

}  // namespace nodestage
