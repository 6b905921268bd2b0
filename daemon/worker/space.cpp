#include "daemon/worker/space.hpp"

#include <sys/statvfs.h>

#include <optional>

#include "common/human.hpp"
#include "daemon/worker/fault.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_check_bytes = 64 * 1024 * 1024;
constexpr unsigned k_check_files = 1000;
constexpr std::string_view k_advice =
    "Ask for a node with more local disk (--tmp=SIZE), stage less (include=, exclude=), or use the "
    "data where it is";

std::optional<struct statvfs> look(int dir_fd) {
  struct statvfs info {};
  if (::fstatvfs(dir_fd, &info) != 0) return std::nullopt;
  return info;
}

std::uint64_t free_bytes(const struct statvfs& info) { return info.f_bavail * info.f_frsize; }

}  // namespace

Status Space::expect(std::uint64_t bytes) const {
  const auto info = look(dir_fd_);
  if (!info) return {};  // then ENOSPC will tell
  const std::uint64_t free = free_bytes(*info);
  if (free >= leave_free_ && free - leave_free_ >= bytes) return {};
  std::string cause = "needs " + human_bytes(bytes) + " of local disk, but node " + node_ +
                      " has " + human_bytes(free) + " free";
  if (leave_free_ > 0) cause += ", of which " + human_bytes(leave_free_) + " must stay free";
  return fault(ENOSPC, cause, k_advice);
}

Status Space::due(std::uint64_t bytes, unsigned files) {
  bytes_ += bytes;
  files_ += files;
  if (bytes_ < k_check_bytes && files_ < k_check_files) return {};
  bytes_ = 0;
  files_ = 0;
  const auto info = look(dir_fd_);
  if (!info || free_bytes(*info) >= leave_free_) return {};
  return fault(ENOSPC,
               "the local disk of node " + node_ + " is full: " + human_bytes(free_bytes(*info)) +
                   " are left, and " + human_bytes(leave_free_) + " must stay free",
               k_advice);
}

Error Space::explain(std::string_view name, int code) const {
  const std::string subject = "cannot write '" + shown(name) + "' on node " + node_ + ": ";
  const auto info = look(dir_fd_);
  if (code == ENOSPC && info) {
    const std::string left = info->f_files > 0 && info->f_favail == 0
                                 ? "no inodes (files) are left"
                                 : human_bytes(free_bytes(*info)) + " are free";
    return fault(code, subject + "the local disk is full, " + left, k_advice);
  }
  if (code == EDQUOT)
    return fault(code, subject + "your quota on the local disk is used up", k_advice);
  return fault(code, subject + std::strerror(code),
               "This is the node's local disk; if it happens again, tell your site's support");
}

}  // namespace nodestage
