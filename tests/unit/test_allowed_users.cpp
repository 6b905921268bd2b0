#include <doctest/doctest.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/settings/plugin_settings.hpp"

using namespace nodestage;

namespace {

constexpr gid_t k_group = 54'321;
constexpr uid_t k_nobody = 65'534;

// As nobody, in the group `k_group`, if the tests run as root; else nothing.
bool nobody_is_allowed(const PluginSettings& settings) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_nobody =
        ::setgroups(1, &k_group) == 0 && ::setgid(k_nobody) == 0 && ::setuid(k_nobody) == 0;
    ::_exit(!is_nobody ? 2 : is_allowed(settings) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WEXITSTATUS(status) != 2);
  return WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("everybody is allowed by a line that names nobody, and root by any") {
  CHECK(is_allowed({}));
  PluginSettings settings;
  settings.users = {"no-such-user"};
  CHECK(is_allowed(settings) == (::getuid() == 0));
}

TEST_CASE("who is named, or is in a group that is named, is allowed") {
  if (::geteuid() != 0) return;
  PluginSettings settings;
  settings.users = {"no-such-user", "nobody"};
  CHECK(nobody_is_allowed(settings));
  settings.users = {"no-such-user"};
  CHECK_FALSE(nobody_is_allowed(settings));
  settings.groups = {"no-such-group", "54321"};
  CHECK(nobody_is_allowed(settings));
  settings.groups = {"nogroup"};  // nobody's own
  CHECK(nobody_is_allowed(settings));
  settings.groups = {"root", "54320"};
  CHECK_FALSE(nobody_is_allowed(settings));
}
