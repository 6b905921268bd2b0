#include "daemon/worker/tree/placed_names.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = std::size_t{64} * 1024 * 1024;

Result<std::string> text_of(int job_fd, const std::string& path) {
  TRY_ASSIGN(const Fd file,
             open_beneath(job_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Error{EINVAL, path};
  return read_all(file.get(), k_max_bytes);
}

}  // namespace

PlacedNames parse_placed_names(std::string_view text) {
  PlacedNames names;
  for (std::size_t end = text.find('\0'); end != std::string_view::npos; end = text.find('\0')) {
    names.emplace(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return names;
}

std::optional<PlacedNames> read_placed_names(int job_fd) {
  for (const std::string& path :
       {std::string(k_placed_afterwards), std::string(k_partial_directory) + "/" + k_placed_file}) {
    if (const auto text = text_of(job_fd, path)) return parse_placed_names(*text);
  }
  return {};
}

}  // namespace nodestage
