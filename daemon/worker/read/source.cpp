#include "daemon/worker/read/source.hpp"

#include <fcntl.h>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/read/opened_sources.hpp"

namespace nodestage {
namespace {

Error kind_fault(const std::string& path) {
  return fault(EINVAL, shown(path) + ": is a FIFO, a device or a socket",
               "Only regular files and directories can be staged");
}

Result<Fd> open_file(const std::string& path) {
  if (opened_items() == nullptr) return open_at(AT_FDCWD, path, k_open_source);
  Fd fd(::fcntl(opened_source(path), F_DUPFD_CLOEXEC, 0));
  if (!fd) return system_error(path, EACCES);
  return fd;
}

int stat_source(const std::string& path, struct stat& info) {
  return opened_items() != nullptr ? ::fstat(opened_source(path), &info)
                                   : ::stat(path.c_str(), &info);
}

}  // namespace

Error open_fault(const std::string& path, int code) {
  const std::string cause = shown(path) + ": " + std::strerror(code);
  if (const char* advice = advice_by_code(code)) return fault(code, cause, advice);
  if (code == ENOENT || code == ENOTDIR || code == ELOOP) {
    return fault(code, cause, "Check the path: ls -l " + shell_word(shown(path)));
  }
  if (code == EACCES || code == EPERM) {
    return fault(code, cause,
                 "The job's user must be able to read it: namei -l " + shell_word(shown(path)) +
                     " (if you can, its file system may require a ticket, as with Kerberos, that "
                     "you have there and not on the node)");
  }
  return fault(
      code, cause,
      "Is its file system mounted on this node? If it happens again, tell your site's support");
}

const char* advice_by_code(int code) {
  if (code == EMFILE) return k_raise_open_files;
  if (code != ENOKEY && code != EKEYEXPIRED && code != EKEYREVOKED && code != EKEYREJECTED)
    return nullptr;
  return "Its file system requires a ticket or token (Kerberos, AFS) that staging on a node does "
         "not have. Stage from another file system, or ask your site's support";
}

Result<struct stat> examine_source(const std::string& path) {
  struct stat info {};
  if (stat_source(path, info) != 0) return open_fault(path, errno);
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return kind_fault(path);
  return info;
}

Result<Fd> open_source_directory(const std::string& path) {
  auto fd = open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY);
  if (!fd) return open_fault(path, fd.error().code);
  return fd;
}

Result<Source> Source::open(const std::string& path, Meter& meter) {
  auto fd = open_file(path);
  if (!fd) return open_fault(path, fd.error().code);
  return of_file(std::move(*fd), path, meter);
}

Result<Source> Source::of_file(Fd fd, const std::string& path, Meter& meter) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return open_fault(path, errno);
  if (!S_ISREG(info.st_mode)) return kind_fault(path);
  static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  return Source(std::move(fd), path, info, meter);
}

Result<std::size_t> Source::read(std::span<std::byte> into) {
  TRY_ASSIGN(const std::size_t bytes, read_at(position_, into));
  position_ += bytes;
  return bytes;
}

Result<std::size_t> Source::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  static const std::atomic<bool> k_never = false;
  TRY_ASSIGN(const Fetched fetched, fetch_at(offset, into, k_never));
  meter_->count_relayed(fetched.relayed);
  TRY(meter_->count_read(fetched.bytes - fetched.relayed));
  return fetched.bytes;
}

Result<std::string> Source::text_at(std::uint64_t offset, std::uint64_t size) const {
  std::string text(size, '\0');
  TRY_ASSIGN(const std::size_t bytes, read_at(offset, std::as_writable_bytes(std::span(text))));
  text.resize(bytes);
  return text;
}

Result<Source::Fetched> Source::fetch_at(std::uint64_t offset, std::span<std::byte> into,
                                         const std::atomic<bool>& given_up) const {
  if (relayed_) return fetch_relayed(offset, into, given_up);
  TRY_ASSIGN(const std::size_t bytes, fetch_original(offset, into));
  return Fetched{bytes, 0};
}

Result<Source::Fetched> Source::fetch_relayed(std::uint64_t offset, std::span<std::byte> into,
                                              const std::atomic<bool>& given_up) const {
  const std::uint64_t rest = size() - std::min(offset, size());
  into = into.first(std::min<std::uint64_t>(into.size(), rest));
  Fetched fetched;
  while (fetched.bytes < into.size()) {
    const std::uint64_t at = offset + fetched.bytes;
    const auto part = into.subspan(fetched.bytes, relayed_->part(into.size() - fetched.bytes));
    TRY_ASSIGN(const bool is_relayed, relayed_->fetch(at, part, given_up));
    std::size_t bytes = part.size();
    if (is_relayed) {
      fetched.relayed += bytes;
    } else {
      TRY_ASSIGN(bytes, fetch_original(at, part));
      relayed_->read_original(at, bytes);
    }
    fetched.bytes += bytes;
    if (bytes < part.size()) break;
  }
  return fetched;
}

Result<std::size_t> Source::fetch_original(std::uint64_t offset, std::span<std::byte> into) const {
  auto count = pread_all(fd_.get(), into, offset);
  if (!count) return read_fault(count.error().code);
  meter_->from_storage += *count;
  return count;
}

Error Source::read_fault(int code) const {
  const char* by_code = advice_by_code(code);
  return fault(code, shown(path_) + ": cannot be read: " + std::strerror(code),
               by_code != nullptr ? by_code
                                  : "Test it: cat FILE > /dev/null; if that "
                                    "works, tell your site's support");
}

}  // namespace nodestage
