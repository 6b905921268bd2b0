#include "common/os/mounts.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_fdinfo = std::size_t{64} * 1024;
constexpr std::size_t k_max_mountinfo = std::size_t{16} * 1024 * 1024;
constexpr std::uint64_t k_none = std::numeric_limits<std::uint64_t>::max();

// Version 2 says "max" where there is no limit, which is no number.
std::uint64_t limit_in(const std::string& file) {
  const auto text = read_file(AT_FDCWD, file, 64);
  std::uint64_t limit = k_none;
  if (text) std::from_chars(text->data(), text->data() + text->size(), limit);
  return limit;
}

// The limit of a cgroup and of those around it, up to the mount point.
std::uint64_t limit_around(std::string directory) {
  std::uint64_t least = k_none;
  while (directory.size() > 1) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"})
      least = std::min(least, limit_in(directory + file));
    directory.resize(directory.rfind('/'));
  }
  return least;
}

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

Result<std::string> read_mountinfo(const std::string& proc) {
  return read_file(AT_FDCWD, proc + "/self/mountinfo", k_max_mountinfo);
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

Result<std::map<std::string, CgroupMount>> cgroup_mounts(const std::string& proc) {
  TRY_ASSIGN(const std::string mountinfo, read_mountinfo(proc));
  std::map<std::string, CgroupMount> mounts;
  for (std::string_view rest = mountinfo; !rest.empty();) {
    const auto mount = mount_in(take_field(rest, '\n'));
    if (!mount) continue;
    const CgroupMount cgroup{std::string(mount->point), std::string(mount->root)};
    if (mount->type == "cgroup2") mounts.emplace("", cgroup);
    if (mount->type != "cgroup") continue;
    for (std::string_view names = mount->options; !names.empty();)
      mounts.emplace(take_field(names, ','), cgroup);
  }
  return mounts;
}

std::map<std::string, std::string> cgroups_in(const std::string& text) {
  std::map<std::string, std::string> own;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = take_field(rest, '\n');
    if (std::count(line.begin(), line.end(), ':') < 2) continue;
    take_field(line, ':');  // the number of the hierarchy
    std::string_view names = take_field(line, ':');
    do {
      own[std::string(take_field(names, ','))] = line;
    } while (!names.empty());
  }
  return own;
}

std::string directory_of(const CgroupMount& mount, const std::string& cgroup) {
  if (mount.root == "/") return cgroup == "/" ? mount.point : mount.point + cgroup;
  if (cgroup == mount.root) return mount.point;
  if (cgroup.starts_with(mount.root + "/")) return mount.point + cgroup.substr(mount.root.size());
  return "";
}

// Whoever makes a cgroup owns its directory.
std::string cgroup_of_root(const std::map<std::string, CgroupMount>& mounts,
                           const std::string& text, std::string_view begin) {
  for (const auto& [controller, path] : cgroups_in(text)) {
    const auto mount = mounts.find(controller);
    const std::size_t at = path.find("/" + std::string(begin));
    if (mount == mounts.end() || at == std::string::npos) continue;
    const std::string own = path.substr(0, path.find('/', at + 1));
    const std::string directory = directory_of(mount->second, own);
    struct stat info {};
    if (!directory.empty() && ::stat(directory.c_str(), &info) == 0 && info.st_uid == 0)
      return own.substr(at + 1);
  }
  return {};
}

std::uint64_t memory_limit(const std::string& proc) {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto mounts = cgroup_mounts(proc);
  const auto own = read_file(AT_FDCWD, proc + "/self/cgroup", std::size_t{1} << 20);
  if (!mounts || !own) return pages * page;
  const auto places = cgroups_in(*own);
  const char* controller = mounts->contains("memory") ? "memory" : "";
  const auto mount = mounts->find(controller);
  const auto place = places.find(controller);
  if (mount == mounts->end() || place == places.end()) return pages * page;
  return std::min(pages * page, limit_around(directory_of(mount->second, place->second)));
}

}  // namespace nodestage
