#include "daemon/worker/tree/xattrs.hpp"

#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>

#include "common/text/parsing.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::uint32_t k_acl_version = 2;
constexpr std::uint32_t k_no_id = 0xffffffff;
constexpr std::size_t k_max_xattrs = 1024;
constexpr std::size_t k_max_list = 65536;  // XATTR_LIST_MAX

struct AclEntry {
  std::uint16_t tag;
  std::uint16_t permissions;
  std::uint32_t id;
};

struct Tag {
  std::string_view name;
  std::uint16_t own;    // without a name after it
  std::uint16_t other;  // with a name; 0: not possible
};
constexpr std::array<Tag, 4> k_tags = {
    {{"user", 1, 2}, {"group", 4, 8}, {"mask", 0x10, 0}, {"other", 0x20, 0}}};

constexpr auto k_blanks = " \t"sv;

std::string_view take(std::string_view& text, std::string_view ends) {
  return trimmed(take_part(text, ends), k_blanks);
}

std::optional<std::uint32_t> id_of(std::string_view text) {
  const auto id = parse_number<std::uint32_t>(text);
  return id == k_no_id ? std::nullopt : id;
}

std::optional<std::uint16_t> permissions_of(std::string_view text) {
  std::uint16_t permissions = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const std::size_t bit = "xwr"sv.find(c);
    if (bit == std::string_view::npos) return std::nullopt;
    permissions = static_cast<std::uint16_t>(permissions | 1U << bit);
  }
  return permissions;
}

std::optional<AclEntry> acl_entry_of(std::string_view text) {
  const std::string_view tag_name = take(text, ":");
  const auto* const tag = std::find_if(k_tags.begin(), k_tags.end(), [&](const Tag& known) {
    return tag_name == known.name || tag_name == known.name.substr(0, 1);
  });
  if (tag == k_tags.end()) return std::nullopt;
  const std::string_view who = take(text, ":");
  const auto permissions = permissions_of(take(text, ":"));
  if (!permissions) return std::nullopt;
  if (who.empty()) return AclEntry{tag->own, *permissions, k_no_id};
  const auto after_colon = id_of(trimmed(text, k_blanks));
  const auto id = after_colon ? after_colon : id_of(who);
  if (!id || tag->other == 0) return std::nullopt;
  return AclEntry{tag->other, *permissions, *id};
}

}  // namespace

bool is_kept_xattr(std::string_view name) {
  return name.starts_with("user.") || name == k_access_acl || name == k_default_acl;
}

std::optional<std::string> acl_of_text(std::string_view text) {
  std::vector<AclEntry> entries;
  while (!text.empty()) {
    std::string_view line = take(text, ",\n");
    line = take(line, "#");
    if (line.empty()) continue;
    const auto entry = acl_entry_of(line);
    if (!entry) return std::nullopt;
    entries.push_back(*entry);
  }
  if (entries.empty()) return std::nullopt;
  std::sort(entries.begin(), entries.end(), [](const AclEntry& a, const AclEntry& b) {
    return std::tie(a.tag, a.id) < std::tie(b.tag, b.id);
  });
  std::string acl;
  put_little_endian(acl, k_acl_version);
  for (const AclEntry& entry : entries) {
    put_little_endian(acl, entry.tag);
    put_little_endian(acl, entry.permissions);
    put_little_endian(acl, entry.id);
  }
  return acl;
}

void put_xattr(Xattrs& xattrs, std::string name, std::string value) {
  const auto known = std::find_if(xattrs.begin(), xattrs.end(),
                                  [&](const Xattr& xattr) { return xattr.name == name; });
  if (known == xattrs.end()) {
    if (xattrs.size() < k_max_xattrs) xattrs.push_back({std::move(name), std::move(value)});
  } else {
    known->value = std::move(value);
  }
}

std::size_t bytes_of(const SharedXattrs& xattrs) {
  std::size_t bytes = 0;
  if (!xattrs) return bytes;
  for (const Xattr& xattr : *xattrs) bytes += sizeof xattr + xattr.name.size() + xattr.value.size();
  return bytes;
}

std::size_t set_xattrs(int path_fd, const Xattrs& xattrs) {
  const std::string path = "/proc/self/fd/" + std::to_string(path_fd);
  return static_cast<std::size_t>(
      std::count_if(xattrs.begin(), xattrs.end(), [&](const auto& xattr) {
        const bool is_unknown = xattr.value.empty() && !xattr.name.starts_with("user.");
        return is_unknown || ::setxattr(path.c_str(), xattr.name.c_str(), xattr.value.data(),
                                        xattr.value.size(), 0) != 0;
      }));
}

Result<Xattrs> read_xattrs(int fd) {
  Xattrs xattrs;
  char small[1024];  // most files have none
  std::string_view names;
  std::string list;
  ssize_t size = ::flistxattr(fd, small, sizeof small);
  if (size >= 0) names = {small, static_cast<std::size_t>(size)};
  if (size < 0 && errno == ERANGE) {
    list.resize(k_max_list);
    size = ::flistxattr(fd, list.data(), list.size());
    if (size >= 0) names = std::string_view(list).substr(0, static_cast<std::size_t>(size));
  }
  if (size < 0 && errno == ENOTSUP) return xattrs;
  if (size < 0) return Error{errno, std::strerror(errno)};
  while (!names.empty()) {
    const std::string name(take_part(names, '\0'));
    if (!is_kept_xattr(name)) continue;
    std::string value(k_max_xattr_value, '\0');
    const ssize_t got = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    if (got < 0 && errno == ENODATA) continue;
    if (got < 0) return Error{errno, std::strerror(errno)};
    value.resize(static_cast<std::size_t>(got));
    xattrs.push_back({name, std::move(value)});
  }
  return xattrs;
}

}  // namespace nodestage
