#include "daemon/worker/pending_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstdio>
#include <ctime>

#include "common/file.hpp"

namespace nodestage {
namespace {

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) == sizeof number) return number;
  timespec now{};  // O_EXCL is what protects; this only has to differ
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_nsec) ^ static_cast<std::uint64_t>(::getpid()) << 32;
}

}  // namespace

PendingName::PendingName(int dir_fd, std::uint32_t job) : dir_fd_(dir_fd) {
  char name[64];
  std::snprintf(name, sizeof name, ".nodestage-%u-%016llx.tmp", job,
                static_cast<unsigned long long>(random_number()));
  temporary_ = name;
}

// After a commit there is nothing of that name, but for one case: rename() of a link onto another
// link of the same file does nothing and leaves both.
PendingName::~PendingName() { ::unlinkat(dir_fd_, temporary_.c_str(), 0); }

Result<Fd> PendingName::create_file(unsigned mode) const {
  auto fd = open_at(dir_fd_, temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!fd) return system_error("cannot make a file in the target", fd.error().code);
  return fd;
}

Status PendingName::commit(const std::string& name) const {
  if (::renameat(dir_fd_, temporary_.c_str(), dir_fd_, name.c_str()) == 0) return {};
  if (errno == EISDIR) return Error{EISDIR, "the target is a directory of that name"};
  return system_error("cannot rename to its final name");
}

Status close_checked(Fd file) {
  if (::close(file.release()) != 0 && errno != EINTR) return system_error("cannot write");
  return {};
}

}  // namespace nodestage
