#include <doctest/doctest.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/settings/plugin_settings.hpp"

using namespace nodestage;

namespace {

PluginSettings parsed(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  return parse_settings(pointers);
}

}  // namespace

TEST_CASE("settings: the defaults") {
  const auto settings = parsed({});
  CHECK(settings.socket == "/run/nodestage/nodestaged.sock");
  CHECK(settings.runtime_dir == "/run/nodestage");
  CHECK(settings.begin_wait.count() == 5);
  CHECK(settings.daemon_wait.count() == 60);
  CHECK(settings.stage_wait.count() == 86400);
  CHECK(epilog_wait_of(settings, false).count() == 900);
  CHECK(epilog_wait_of(settings, true).count() == 86'400);
  CHECK(settings.progress.count() == 10);
  CHECK(settings.results_wait.count() == 60);
  CHECK(settings.complaints.empty());
}

TEST_CASE("each argument of plugstack.conf is read") {
  const auto settings = parsed({"socket=/s", "runtime_dir=/r", "begin_wait=0", "daemon_wait=2",
                                "stage_wait=3", "epilog_wait=4", "progress=5"});
  CHECK(settings.socket == "/s");
  CHECK(settings.runtime_dir == "/r");
  CHECK(settings.begin_wait.count() == 0);
  CHECK(settings.daemon_wait.count() == 2);
  CHECK(settings.stage_wait.count() == 3);
  CHECK(epilog_wait_of(settings, false).count() == 4);
  CHECK(epilog_wait_of(settings, true).count() == 4);
  CHECK(settings.progress.count() == 5);
  CHECK(settings.complaints.empty());
}

TEST_CASE("settings: whose options are accepted") {
  const auto settings = parsed({"users=alice,bob", "groups=lab,20100"});
  CHECK(settings.users == std::vector<std::string>{"alice", "bob"});
  CHECK(settings.groups == std::vector<std::string>{"lab", "20100"});
  CHECK(parsed({"users=alice,,bob"}).users.empty());
  CHECK(parsed({"groups="}).complaints.size() == 1);
}

TEST_CASE("settings: the socket follows the runtime directory") {
  CHECK(parsed({"runtime_dir=/r"}).socket == "/r/nodestaged.sock");
}

TEST_CASE("settings: what is wrong leaves the default and is complained of by name") {
  for (const char* wrong : {"progress=0", "progress=", "progress", "progress=ten", "progress=10s",
                            "progress=-1", "progress=99999999999", "socket=relative",
                            "socket=", "nonsense=1", "", "=", "Progress=3"}) {
    CAPTURE(wrong);
    const auto settings = parsed({wrong, "begin_wait=7"});
    CHECK(settings.progress.count() == 10);
    CHECK(settings.socket == "/run/nodestage/nodestaged.sock");
    CHECK(settings.begin_wait.count() == 7);
    REQUIRE(settings.complaints.size() == 1);
    CHECK(settings.complaints[0].find(std::string("'") + wrong + "'") != std::string::npos);
  }
}

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
  PluginSettings settings{.users = {"no-such-user"}};
  CHECK(is_allowed(settings) == (::getuid() == 0));
}

TEST_CASE("who is named, or is in a group that is named, is allowed") {
  if (::geteuid() != 0) return;
  PluginSettings settings{.users = {"no-such-user", "nobody"}};
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
