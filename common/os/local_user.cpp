#include "common/os/local_user.hpp"

#include <pwd.h>

#include <array>
#include <cstdio>
#include <memory>

namespace nodestage {

std::optional<LocalUser> local_user(const std::string& name) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/etc/passwd", "re"), std::fclose);
  if (!file) return {};
  std::array<char, 4096> text{};
  passwd entry{};
  passwd* found = nullptr;
  while (::fgetpwent_r(file.get(), &entry, text.data(), text.size(), &found) == 0) {
    if (name == entry.pw_name) return LocalUser{entry.pw_uid, entry.pw_gid};
  }
  return {};
}

}  // namespace nodestage
