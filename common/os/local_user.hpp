// A system user of this host, without NSS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nodestage {

struct LocalUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Returns what /etc/passwd says. NSS may ask a server that does not answer.
std::optional<LocalUser> local_user(const std::string& name);

}  // namespace nodestage
