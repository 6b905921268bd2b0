#include "common/os/file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <climits>

namespace nodestage {

bool leads_to_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool has_entry(int dir_fd, const std::string& name) {
  struct stat info {};
  return ::fstatat(dir_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string link_text(int dir_fd, const std::string& path) {
  char text[PATH_MAX];
  const ssize_t size = ::readlinkat(dir_fd, path.c_str(), text, sizeof text);
  return size <= 0 ? std::string() : std::string(text, static_cast<std::size_t>(size));
}

std::string path_of(int fd) { return link_text(AT_FDCWD, "/proc/self/fd/" + std::to_string(fd)); }

Result<Fd> open_at(int dir_fd, const std::string& path, int flags, unsigned mode) {
  int fd = 0;
  do {
    fd = ::openat(dir_fd, path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return system_error(path);
  return Fd(fd);
}

Result<Fd> open_beneath(int dir_fd, const std::string& path, int flags, unsigned mode,
                        unsigned long resolve) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  // EAGAIN: a directory on the way was renamed, or, with O_NONBLOCK, the file's owner has a lease
  // on it (fcntl_locking(2)), which can last.
  constexpr int k_tries = 100;
  long fd = -1;
  for (int i = 0; fd < 0 && i < k_tries; ++i) {
    fd = ::syscall(SYS_openat2, dir_fd, path.c_str(), &how, sizeof how);
    if (fd < 0 && errno != EINTR && errno != EAGAIN) break;
    if (fd < 0 && i >= 10) ::usleep(1000);
  }
  if (fd < 0) return system_error(path);
  return Fd(static_cast<int>(fd));
}

Result<bool> make_missing_directory(int dir_fd, const std::string& path, unsigned mode) {
  struct stat info {};
  if (::fstatat(dir_fd, path.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return false;
  if (::mkdirat(dir_fd, path.c_str(), mode) == 0) return true;
  if (errno != EEXIST) return system_error(path);
  return false;
}

Result<std::string> read_all(int fd, std::size_t max_bytes) {
  std::string data;
  char block[16384];
  for (;;) {
    const ssize_t count = ::read(fd, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read");
    if (count == 0) return data;
    data.append(block, static_cast<std::size_t>(count));
    if (data.size() > max_bytes) return Error{EFBIG, "the file is larger than expected"};
  }
}

Result<std::string> read_file(int dir_fd, const std::string& path, std::size_t max_bytes) {
  TRY_ASSIGN(const Fd fd, open_at(dir_fd, path, O_RDONLY));
  auto data = read_all(fd.get(), max_bytes);
  if (!data) return Error{data.error().code, path + ": " + data.error().what};
  return data;
}

Status write_all(int fd, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("write");
    if (count == 0) return system_error("write", EIO);  // a file system in user space can say so
    data = data.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status write_all(int fd, std::string_view data) {
  return write_all(fd, std::as_bytes(std::span(data)));
}

Result<std::size_t> pread_all(int fd, std::span<std::byte> into, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t count =
        ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Status pwrite_all(int fd, std::span<const std::byte> data, std::uint64_t offset) {
  while (!data.empty()) {
    const ssize_t count = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("write");
    if (count == 0) return system_error("write", EIO);  // a file system in user space can say so
    data = data.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status pwrite_all(int fd, std::span<const std::byte> data, std::uint64_t offset, const char* what) {
  const Status written = pwrite_all(fd, data, offset);
  return written ? Status() : system_error(what, written.error().code);
}

Status write_file(int dir_fd, const std::string& name, std::string_view data, unsigned mode) {
  TRY_ASSIGN(const Fd fd, open_at(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode));
  Status written = write_all(fd.get(), data);
  if (!written) ::unlinkat(dir_fd, name.c_str(), 0);
  return written;
}

namespace {

enum class Sync { yes, no };

Status replace(int dir_fd, const std::string& name, std::string_view data, unsigned mode,
               Sync sync) {
  const std::string temporary = "." + name + ".new";
  const auto rename = [&]() -> Status {
    TRY(write_file(dir_fd, temporary, data, mode));
    if (sync == Sync::yes) {
      TRY_ASSIGN(const Fd fd, open_at(dir_fd, temporary, O_RDONLY | O_NOFOLLOW));
      if (::fsync(fd.get()) != 0) return system_error(temporary);
    }
    if (::renameat(dir_fd, temporary.c_str(), dir_fd, name.c_str()) != 0) return system_error(name);
    return {};
  };
  Status replaced = rename();
  if (!replaced) ::unlinkat(dir_fd, temporary.c_str(), 0);
  return replaced;
}

}  // namespace

Status replace_file_unsynced(int dir_fd, const std::string& name, std::string_view data,
                             unsigned mode) {
  return replace(dir_fd, name, data, mode, Sync::no);
}

Status replace_file(int dir_fd, const std::string& name, std::string_view data, unsigned mode) {
  TRY(replace(dir_fd, name, data, mode, Sync::yes));
  return ::fsync(dir_fd) == 0 ? Status() : system_error(name);
}

DirectoryStream::DirectoryStream(Fd directory) : stream_(::fdopendir(directory.get())) {
  if (!stream_) {
    code_ = errno;
    return;
  }
  static_cast<void>(directory.release());  // the stream closes it
}

DirectoryStream DirectoryStream::at(int dir_fd, const std::string& path) {
  Fd directory(::openat(dir_fd, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return DirectoryStream(errno);
  return DirectoryStream(std::move(directory));
}

std::optional<std::string_view> DirectoryStream::next() {
  while (stream_ && code_ == 0) {
    errno = 0;
    const dirent* entry = ::readdir(stream_.get());
    if (entry == nullptr) {
      code_ = errno;
      return {};
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return name;
  }
  return {};
}

std::string only_name(int dir_fd) {
  auto names = DirectoryStream::at(dir_fd);
  std::string only;
  while (const auto name = names.next()) {
    if (!only.empty()) return {};
    only = *name;
  }
  return only;
}

}  // namespace nodestage
