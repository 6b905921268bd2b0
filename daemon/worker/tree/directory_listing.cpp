#include "daemon/worker/tree/directory_listing.hpp"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace nodestage {
namespace {

// Larger than readdir's, for file systems that answer each call over a network.
constexpr std::size_t k_block_bytes = std::size_t{128} * 1024;

// Returns false at the end.
Result<bool> read_block(int fd, std::vector<char>& block, std::vector<ListedName>& names) {
  const long size = ::syscall(SYS_getdents64, fd, block.data(), block.size());
  if (size < 0) return Error{errno, std::strerror(errno)};
  for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
    const auto* entry = reinterpret_cast<const dirent64*>(block.data() + at);
    at += entry->d_reclen;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.push_back({entry->d_ino, entry->d_type, std::string(name)});
  }
  return size > 0;
}

}  // namespace

Result<std::vector<ListedName>> list_directory(int fd, std::size_t count) {
  thread_local std::vector<char> block(k_block_bytes);
  std::vector<ListedName> names;
  while (names.size() < count) {
    TRY_ASSIGN(const bool is_more, read_block(fd, block, names));
    if (!is_more) break;
  }
  return names;
}

}  // namespace nodestage
