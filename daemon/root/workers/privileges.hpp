// Gives up root for good, in a forked child that will become a worker.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace nodestage {

enum class Groups {
  resolve,  // all supplementary groups of the user, from NSS: may take long or forever
  primary,  // none but the given gid
};

struct Identity {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;  // for the supplementary groups
};

// Turns the calling process, which must be uid 0 and single-threaded, into `identity`: groups, gid
// and uid (real, effective, saved), empty capability sets (bounding set included), no_new_privs.
// Then verifies that none of it can be taken back. Refuses a uid or gid of 0.
Status become(const Identity& identity, Groups groups);

// Does the same for a system user by name, without supplementary groups. Asks NSS.
Status become_user(const std::string& user);

// Keeps uid 0 but only what removing files of any owner needs (CAP_DAC_OVERRIDE,
// CAP_DAC_READ_SEARCH, CAP_FOWNER), with no_new_privs.
Status become_remover();

// Keeps uid 0 without any capability, with no_new_privs.
Status drop_capabilities();

}  // namespace nodestage
