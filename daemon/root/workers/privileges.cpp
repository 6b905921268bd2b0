#include "daemon/root/workers/privileges.hpp"

#include <grp.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>
#include <span>

namespace nodestage {
namespace {

using Capabilities = std::unique_ptr<void, int (*)(void*)>;

Status keep_capabilities(std::span<const cap_value_t> kept) {
  const Capabilities set(::cap_init(), ::cap_free);
  if (!set) return system_error("cap_init");
  auto* caps = static_cast<cap_t>(set.get());
  for (const cap_flag_t flag : {CAP_PERMITTED, CAP_EFFECTIVE}) {
    if (kept.empty()) break;  // cap_set_flag refuses an empty list; a new set is empty
    if (::cap_set_flag(caps, flag, static_cast<int>(kept.size()), kept.data(), CAP_SET) != 0) {
      return system_error("cap_set_flag");
    }
  }
  if (::cap_set_proc(caps) != 0) return system_error("cap_set_proc");
  return {};
}

// Drops what a later execve could give back.
Status drop_bounding_set(std::span<const cap_value_t> kept) {
  for (cap_value_t cap = 0; CAP_IS_SUPPORTED(cap); ++cap) {
    bool keep = false;
    for (const cap_value_t value : kept) keep = keep || value == cap;
    if (!keep && ::cap_drop_bound(cap) != 0) return system_error("cap_drop_bound");
  }
  if (::cap_reset_ambient() != 0) return system_error("cap_reset_ambient");
  return {};
}

Status no_new_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("no_new_privs");
  return {};
}

Status stay_root_with(std::span<const cap_value_t> kept) {
  if (::setgroups(0, nullptr) != 0) return system_error("setgroups");
  TRY(drop_bounding_set(kept));
  TRY(keep_capabilities(kept));
  return no_new_privileges();
}

Status set_groups(const Identity& identity, Groups groups) {
  const gid_t primary = identity.gid;
  const int rc = groups == Groups::resolve ? ::initgroups(identity.user.c_str(), primary)
                                           : ::setgroups(1, &primary);
  return rc == 0 ? Status() : system_error("the groups of the user '" + identity.user + "'");
}

Status verify_dropped(const Identity& identity) {
  uid_t uids[3];
  gid_t gids[3];
  ::getresuid(&uids[0], &uids[1], &uids[2]);
  ::getresgid(&gids[0], &gids[1], &gids[2]);
  for (const uid_t uid : uids) {
    if (uid != identity.uid) return Error{EPERM, "root's uid could not be dropped"};
  }
  for (const gid_t gid : gids) {
    if (gid != identity.gid) return Error{EPERM, "root's gid could not be dropped"};
  }
  if (::setuid(0) == 0 || ::seteuid(0) == 0 || ::setgid(0) == 0) {
    return Error{EPERM, "the process could become root again"};
  }
  const Capabilities now(::cap_get_proc(), ::cap_free);
  const Capabilities empty(::cap_init(), ::cap_free);
  if (!now || !empty ||
      ::cap_compare(static_cast<cap_t>(now.get()), static_cast<cap_t>(empty.get())) != 0) {
    return Error{EPERM, "not all capabilities could be dropped"};
  }
  return {};
}

}  // namespace

Status become(const Identity& identity, Groups groups) {
  if (identity.uid == 0 || identity.gid == 0) {
    return Error{EPERM, "nodestage does not stage for root (uid or gid 0)"};
  }
  TRY(set_groups(identity, groups));
  TRY(drop_bounding_set({}));
  if (::setresgid(identity.gid, identity.gid, identity.gid) != 0) return system_error("setresgid");
  if (::setresuid(identity.uid, identity.uid, identity.uid) != 0) return system_error("setresuid");
  TRY(keep_capabilities({}));
  TRY(no_new_privileges());
  return verify_dropped(identity);
}

Status become_user(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return Error{ENOENT, "the user '" + user + "' does not exist on this node"};
  return become({entry->pw_uid, entry->pw_gid, user}, Groups::primary);
}

Status become_remover() {
  static constexpr cap_value_t k_kept[] = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER};
  return stay_root_with(k_kept);
}

Status drop_capabilities() { return stay_root_with({}); }

}  // namespace nodestage
