// Attack: code that has taken over a worker tries to become root again, or another user, by every
// road that the kernel has: the ids, capabilities, groups, ambient and bounding sets, set-uid
// programs.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <set>

#include "../unit/scratch.hpp"
#include "as_child.hpp"
#include "daemon/root/workers/worker_process.hpp"

using namespace nodestage;

namespace {

const Identity k_user{65534, 65534, "nobody"};

bool skipped() {
#ifdef __SANITIZE_THREAD__
  MESSAGE(
      "skipped: ThreadSanitizer's own thread stays root, and glibc aborts when threads differ in "
      "that");
  return true;
#endif
  if (::geteuid() == 0) return false;
  MESSAGE("skipped: needs root, as the daemon has it");
  return true;
}

// The names of the attempts that succeeded after become().
std::string successes(Groups groups) {
  if (const Status dropped = become(k_user, groups); !dropped) return dropped.error().what;
  std::string won;
  const auto attempt = [&won](const char* name, bool succeeded) {
    if (succeeded) won += std::string(name) + " ";
  };
  const gid_t root_group = 0;
  attempt("setuid", ::setuid(0) == 0);
  attempt("seteuid", ::seteuid(0) == 0);
  attempt("setresuid", ::setresuid(0, 0, 0) == 0);
  attempt("another-user", ::setuid(65533) == 0);
  attempt("setgid", ::setgid(0) == 0);
  attempt("setresgid", ::setresgid(0, 0, 0) == 0);
  attempt("setgroups", ::setgroups(1, &root_group) == 0);
  attempt("initgroups", ::initgroups("root", 0) == 0);
  attempt("ambient", ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0) == 0);
  attempt("privs-again", ::prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
  attempt("privs-off", ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
  attempt("chown", ::chown("/etc/passwd", 65534, 65534) == 0);
  attempt("shadow", ::open("/etc/shadow", O_RDONLY | O_CLOEXEC) >= 0);
  for (cap_value_t cap = 0; CAP_IS_SUPPORTED(cap); ++cap) {
    if (::cap_get_bound(cap) != 0) attempt("bounding-set", true);
    cap_t set = ::cap_get_proc();
    ::cap_set_flag(set, CAP_PERMITTED, 1, &cap, CAP_SET);
    ::cap_set_flag(set, CAP_EFFECTIVE, 1, &cap, CAP_SET);
    attempt("capset", ::cap_set_proc(set) == 0);
    ::cap_free(set);
  }
  return won;
}

std::string groups_after(Groups groups) {
  if (const Status dropped = become(k_user, groups); !dropped) return dropped.error().what;
  gid_t list[64];
  const int count = ::getgroups(64, list);
  std::set<gid_t> all(list, list + std::max(count, 0));
  std::string text;
  for (const gid_t gid : all) text += std::to_string(gid) + " ";
  return text;
}

// A set-uid root program that prints its effective uid; "" where the file system does not honour
// it.
std::string set_uid_program(const Scratch& scratch) {
  std::filesystem::copy_file(NODESTAGE_FAKE_WORKER, scratch / "set-uid");
  ::chmod(scratch.path().c_str(), 0755);
  ::chmod((scratch / "set-uid").c_str(), 04755);
  return scratch / "set-uid";
}

std::string run_euid(const std::string& program) {
  ::execl(program.c_str(), program.c_str(), "euid", nullptr);
  return "exec failed";
}

constexpr std::array<cap_value_t, 3> k_remover = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
                                                  CAP_FOWNER};

std::string capabilities() {
  std::string text;
  cap_t set = ::cap_get_proc();
  for (const auto& [name, flag] :
       {std::pair{"effective", CAP_EFFECTIVE}, std::pair{"permitted", CAP_PERMITTED},
        std::pair{"inheritable", CAP_INHERITABLE}}) {
    text += std::string(name) + ":";
    for (cap_value_t cap = 0; CAP_IS_SUPPORTED(cap); ++cap) {
      cap_flag_value_t value = CAP_CLEAR;
      ::cap_get_flag(set, cap, flag, &value);
      if (value == CAP_SET) text += " " + std::to_string(cap);
    }
    text += "\n";
  }
  ::cap_free(set);
  text += "bounding:";
  for (cap_value_t cap = 0; CAP_IS_SUPPORTED(cap); ++cap) {
    if (::cap_get_bound(cap) != 0) text += " " + std::to_string(cap);
  }
  return text;
}

// The daemon's destructors call this one.
constinit bool spoils_errno = false;

}  // namespace

extern "C" int cap_free(void* set) {
  static auto* const free_set = reinterpret_cast<int (*)(void*)>(::dlsym(RTLD_NEXT, "cap_free"));
  const int rc = free_set(set);
  if (spoils_errno) errno = ENOMSG;
  return rc;
}

TEST_CASE("a capability that cannot be kept is named with its cause") {
  if (skipped()) return;
  CHECK(as_child([] {
          // Enough for all but the last step.
          static constexpr cap_value_t k_few[] = {CAP_SETGID, CAP_SETPCAP};
          cap_t few = ::cap_init();
          for (const cap_flag_t flag : {CAP_PERMITTED, CAP_EFFECTIVE})
            ::cap_set_flag(few, flag, 2, k_few, CAP_SET);
          if (::cap_set_proc(few) != 0) return std::string("not set");
          spoils_errno = true;
          const Status done = become_remover();
          return done ? std::string("done") : done.error().what;
        }) == "cap_set_proc: Operation not permitted");
}

TEST_CASE("after become() no id, capability, group or right comes back") {
  if (skipped()) return;
  CHECK(as_child([] { return successes(Groups::primary); }) == "");
  CHECK(as_child([] { return successes(Groups::resolve); }) == "");
}

TEST_CASE("root's supplementary groups are gone after become()") {
  if (skipped()) return;
  const std::string groups = as_child([] {
    const gid_t extra[] = {0, 4, 6};
    if (::setgroups(3, extra) != 0) return std::string("setgroups failed");
    return groups_after(Groups::primary);
  });
  CHECK(groups == "65534 ");
  const std::string resolved = as_child([] {
    const gid_t extra[] = {0, 4, 6};
    if (::setgroups(3, extra) != 0) return std::string("setgroups failed");
    return groups_after(Groups::resolve);
  });
  CHECK(resolved == "65534 ");
}

TEST_CASE("a set-uid program gives nothing after become()") {
  if (skipped()) return;
  const Scratch scratch;
  const std::string program = set_uid_program(scratch);
  const std::string before = as_child([&] {
    return ::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0
               ? run_euid(program)
               : "";
  });
  if (before != "euid 0\n") {
    MESSAGE("skipped: set-uid programs do not work on this file system: " << before);
    return;
  }
  const std::string after = as_child([&] {
    const Status dropped = become(k_user, Groups::primary);
    return dropped ? run_euid(program) : dropped.error().what;
  });
  CHECK(after == "euid 65534\n");
}

TEST_CASE("root itself is nobody that become() turns into") {
  if (skipped()) return;
  CHECK_FALSE(become({0, 65534, "nobody"}, Groups::primary));
  CHECK_FALSE(become({65534, 0, "nobody"}, Groups::primary));
  CHECK(::geteuid() == 0);
}

TEST_CASE("the remover has three capabilities, in every set, and no group") {
  if (skipped()) return;
  std::string three;
  for (const cap_value_t cap : k_remover) three += " " + std::to_string(cap);
  const std::string said = as_child([] {
    const Status done = become_remover();
    return done ? capabilities() : done.error().what;
  });
  CHECK(said ==
        "effective:" + three + "\npermitted:" + three + "\ninheritable:\nbounding:" + three);
  const std::string tries = as_child([] {
    if (const Status done = become_remover(); !done) return done.error().what;
    const gid_t group = 4;
    std::string won;
    if (::setuid(65534) == 0) won += "setuid ";
    if (::setgroups(1, &group) == 0) won += "setgroups ";
    if (::getgroups(0, nullptr) != 0) won += "groups ";
    if (::chown("/proc/self/root", 1, 1) == 0) won += "chown ";
    if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) won += "new-privs ";
    return won;
  });
  CHECK(tries == "");
}
