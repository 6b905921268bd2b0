#include "common/os/memory_limit.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "common/os/cgroup_paths.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_none = std::numeric_limits<std::uint64_t>::max();

// Version 2 says "max" where there is no limit, which is no number.
std::uint64_t limit_in(const std::string& file) {
  const auto text = read_file(AT_FDCWD, file, 64);
  if (!text) return k_none;
  std::uint64_t limit = k_none;
  std::from_chars(text->data(), text->data() + text->size(), limit);
  return limit;
}

}  // namespace

std::uint64_t memory_limit_of(std::string directory) {
  std::uint64_t least = k_none;
  while (directory.size() > 1) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"})
      least = std::min(least, limit_in(directory + file));
    directory.resize(directory.rfind('/'));
  }
  return least;
}

std::uint64_t memory_limit(const std::string& proc) {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto mounts = cgroup_mounts(proc);
  const auto own = read_file(AT_FDCWD, proc + "/self/cgroup", std::size_t{1} << 20);
  if (!mounts || !own) return pages * page;
  return std::min(pages * page, memory_limit_of(memory_directory_of(*mounts, *own)));
}

}  // namespace nodestage
