#include "common/os/mounts.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_fdinfo = std::size_t{64} * 1024;
constexpr std::size_t k_max_mountinfo = std::size_t{16} * 1024 * 1024;

}  // namespace

std::string_view take_field(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

// statx(2) reports it from Linux 5.8 on; this works everywhere.
std::string mount_of(int fd) {
  static constexpr std::string_view k_key = "mnt_id:\t";
  const auto text = read_file(AT_FDCWD, "/proc/self/fdinfo/" + std::to_string(fd), k_max_fdinfo);
  const std::size_t at = text ? text->find(k_key) : std::string::npos;
  if (at == std::string::npos) return {};
  std::string_view rest = std::string_view(*text).substr(at + k_key.size());
  return std::string(take_field(rest, '\n'));
}

bool is_noexec(int fd) {
  struct statvfs info {};
  return ::fstatvfs(fd, &info) == 0 && (info.f_flag & ST_NOEXEC) != 0;
}

Result<std::string> read_mountinfo() {
  return read_file(AT_FDCWD, "/proc/self/mountinfo", k_max_mountinfo);
}

// Blanks, newlines and backslashes are octal there.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    const bool is_code = text[i] == '\\' && text.size() - i > 3 &&
                         std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3;
    plain += is_code ? static_cast<char>(code) : text[i];
    if (is_code) i += 3;
  }
  return plain;
}

std::optional<Mount> mount_in(std::string_view line) {
  static constexpr std::string_view k_separator = " - ";
  const std::size_t at = line.find(k_separator);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + k_separator.size());
  Mount mount;
  mount.number = take_field(line, ' ');
  take_field(line, ' ');  // the mount that it is in
  mount.disk = take_field(line, ' ');
  mount.root = take_field(line, ' ');
  mount.point = take_field(line, ' ');
  mount.type = take_field(rest, ' ');
  mount.device = take_field(rest, ' ');
  mount.options = rest;
  return mount;
}

std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view number) {
  while (!number.empty() && !mountinfo.empty()) {
    const std::string_view line = take_field(mountinfo, '\n');
    if (line.substr(0, line.find(' ')) == number) return mount_in(line);
  }
  return std::nullopt;
}

}  // namespace nodestage
