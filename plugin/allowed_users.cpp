#include "plugin/allowed_users.hpp"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_entry_bytes = std::size_t{1} << 20;  // a group can have many members

std::string name_of(uid_t uid) {
  std::vector<char> buffer(k_entry_bytes);
  struct passwd entry {};
  struct passwd* found = nullptr;
  const int fault = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return fault == 0 && found != nullptr ? found->pw_name : "";
}

// Nothing if there is no such group.
std::optional<gid_t> number_of(const std::string& group) {
  if (const auto number = parse_number<gid_t>(group)) return *number;
  std::vector<char> buffer(k_entry_bytes);
  struct group entry {};
  struct group* found = nullptr;
  const int fault = ::getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (fault != 0 || found == nullptr) return {};
  return found->gr_gid;
}

std::vector<gid_t> own_groups() {
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(count < 0 ? 0 : static_cast<std::size_t>(count));
  if (::getgroups(count, groups.data()) != count) groups.clear();
  groups.push_back(::getegid());
  return groups;
}

}  // namespace

bool is_allowed(const PluginSettings& settings) {
  if ((settings.users.empty() && settings.groups.empty()) || ::getuid() == 0) return true;
  const auto& users = settings.users;
  if (!users.empty() && std::find(users.begin(), users.end(), name_of(::getuid())) != users.end())
    return true;
  const std::vector<gid_t> own = own_groups();
  return std::any_of(settings.groups.begin(), settings.groups.end(), [&own](const auto& group) {
    const auto gid = number_of(group);
    return gid && std::find(own.begin(), own.end(), *gid) != own.end();
  });
}

}  // namespace nodestage
