#include "daemon/worker/tree/pending_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstdio>
#include <ctime>

#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "daemon/worker/tree/dir_stack.hpp"

namespace nodestage {
namespace {

std::uint32_t random_number() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) == sizeof number) return number;
  timespec now{};  // O_EXCL protects; this only has to differ
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint32_t>(now.tv_nsec) ^ static_cast<std::uint32_t>(::getpid()) << 16;
}

// FNV-1a.
std::uint32_t short_hash(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace

PendingNames pending_names(const OrderHead& order) {
  const std::string place = order.node + "/" + std::to_string(order.restart);
  char prefix[64];
  std::snprintf(prefix, sizeof prefix, ".nodestage-%u-%08x", order.job, short_hash(place));
  return {prefix, false, {}};
}

PendingNames pending_names(const DeliveryOrder& order) {
  PendingNames names = pending_names(static_cast<const OrderHead&>(order));
  names.may_be_left = order.tries > 0;
  return names;
}

void remove_leftovers(int dir_fd, const PendingNames& names) {
  if (!names.may_be_left) return;
  auto directory = DirectoryStream::at(dir_fd);
  while (const auto name = directory.next()) {
    if (name->starts_with(names.prefix) && name->ends_with(".tmp"))
      ::unlinkat(dir_fd, std::string(*name).c_str(), 0);
  }
}

PendingName::PendingName(int dir_fd, const PendingNames& names) : dir_fd_(dir_fd) {
  char tail[16];
  std::snprintf(tail, sizeof tail, "%08x.tmp", random_number());
  temporary_ = names.prefix + tail;
  if (!names.before) return;
  if (const std::string directory = path_of(dir_fd); !directory.empty())
    names.before(directory + "/" + temporary_);
}

// After a commit the name does not exist, with one exception: rename() of a link onto another link
// of the same file does nothing and leaves both.
PendingName::~PendingName() { ::unlinkat(dir_fd_, temporary_.c_str(), 0); }

Result<Fd> PendingName::create_file(unsigned mode) const {
  auto fd = open_at(dir_fd_, temporary_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!fd) return system_error("cannot make a file in the target", fd.error().code);
  return fd;
}

Status PendingName::commit(const std::string& name) const {
  if (::renameat(dir_fd_, temporary_.c_str(), dir_fd_, name.c_str()) == 0) return {};
  if (errno == EISDIR) return Error{EISDIR, "the target is a directory of that name"};
  return system_error("cannot rename to its final name");
}

Status PendingName::commit_new(const std::string& name) const {
  constexpr unsigned k_new = RENAME_NOREPLACE;
  if (::renameat2(dir_fd_, temporary_.c_str(), dir_fd_, name.c_str(), k_new) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return system_error("cannot rename to its final name");
  // A file system that does not support that (NFS): the next best.
  if (::faccessat(dir_fd_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    return system_error("cannot rename to its final name", EEXIST);
  return commit(name);
}

Status close_checked(Fd file) {
  if (::close(file.release()) != 0 && errno != EINTR) return system_error("cannot write");
  return {};
}

}  // namespace nodestage
