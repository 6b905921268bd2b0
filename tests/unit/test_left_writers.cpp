#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "plugin/left_writers.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr uid_t k_user = 65534;
constexpr EndedJob k_ended{12, k_user};

using Pids = std::vector<std::string>;

std::optional<Pids> no_worker() { return Pids(); }
bool no_preparation() { return true; }

// A process of that user that has opened the file, or is in the directory, after what `prepare` did
// as root. Then it runs the program, if that is one.
pid_t start(const std::string& path, uid_t uid,
            const std::function<bool()>& prepare = no_preparation,
            const std::string& program = "") {
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(::signal(SIGTERM, SIG_DFL));  // not the test program's handler
    const bool is_in =
        prepare() && (std::filesystem::is_directory(path) ? ::chdir(path.c_str()) == 0
                                                          : ::open(path.c_str(), O_RDONLY) >= 0);
    const bool is_user = ::setgid(uid) == 0 && ::setuid(uid) == 0;
    if (!is_in || !is_user) ::_exit(1);
    if (!program.empty()) {
      ::dup2(ready[1], STDERR_FILENO);  // the pipe's other end reads "x", or the end
      ::execl(program.c_str(), "sh", "-c", "printf x >&2; exec 2>&-; kill -STOP $$", nullptr);
    }
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  ::close(ready[1]);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  return child;
}

}  // namespace

TEST_CASE("attack: who has something open in what is kept is killed, and nobody else") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  const std::string hold = scratch / "hold";
  std::filesystem::create_directories(hold + "/12.0/sub");
  std::filesystem::create_directories(scratch / "holdings");
  std::ofstream(hold + "/12.0/file").close();
  const pid_t reader = start(hold + "/12.0/file", k_user);
  const pid_t inside = start(hold + "/12.0/sub", k_user);
  const pid_t outside = start(scratch / "holdings", k_user);
  const pid_t other = start(hold + "/12.0/file", k_user - 1);
  const KilledWriters killed = kill_left_writers(hold, k_ended, no_worker);
  CHECK(killed == KilledWriters{{reader, Proof::open}, {inside, Proof::open}});
  CHECK(kill_left_writers(hold, {12, 0}, no_worker).empty());
  CHECK(kill_left_writers(scratch / "nowhere", k_ended, no_worker).empty());
  for (const pid_t pid : {outside, other}) CHECK(::kill(pid, SIGTERM) == 0);
  for (const pid_t pid : {reader, inside, outside, other}) {
    int status = 0;
    CHECK(::waitpid(pid, &status, 0) == pid);
    CHECK(WTERMSIG(status) == (pid == reader || pid == inside ? SIGKILL : SIGTERM));
  }
}

namespace {

struct Hold {
  Scratch scratch = {};
  std::string path = scratch / "hold";
  std::string elsewhere = scratch / "elsewhere";
  Hold() {
    std::filesystem::create_directories(path + "/12.0");
    std::filesystem::create_directories(elsewhere);
    std::ofstream(path + "/12.0/file").close();
    for (const std::string& open : {scratch.path().string(), path, path + "/12.0"})
      REQUIRE(::chmod(open.c_str(), 0755) == 0);
  }
  // In a name space of mounts of the calling process's own.
  [[nodiscard]] bool mount_elsewhere(const std::string& what) const {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount(what.c_str(), elsewhere.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  // Whether the process was killed; ends it otherwise.
  [[nodiscard]] bool kills(pid_t process, const AskWorkers& ask_workers = no_worker,
                           const EndedJob& job = k_ended) const {
    const bool is_killed = kill_left_writers(path, job, ask_workers).contains(process);
    if (!is_killed) ::kill(process, SIGKILL);
    REQUIRE(::waitpid(process, nullptr, 0) == process);
    return is_killed;
  }
};

// A cgroup of root's of that name; "" where none can be made.
std::string make_cgroup(const std::string& name) {
  const auto mounts = cgroup_mounts("/proc");
  const auto own = read_file(AT_FDCWD, "/proc/self/cgroup", 1 << 16);
  if (!mounts || !own) return "";
  for (const auto& [controller, place] : cgroups_in(*own)) {
    const auto mount = mounts->find(controller);
    if (mount == mounts->end() || (!controller.empty() && controller != "pids")) continue;
    const std::string made = directory_of(mount->second, place) + "/" + name;
    if (::mkdir(made.c_str(), 0755) == 0) return made;
  }
  return "";
}

bool enter(const std::string& cgroup) {
  const auto processes = open_at(AT_FDCWD, cgroup + "/cgroup.procs", O_WRONLY);
  return processes && write_all(processes->get(), std::string_view("0"));
}

}  // namespace

TEST_CASE("attack: what is kept is open by another path, in a mount name space of the user's") {
  if (skipped_without_root()) return;
  const Hold hold;
  const auto mount = [&] { return hold.mount_elsewhere(hold.path + "/12.0"); };
  for (const char* name : {"", "/file"})
    CHECK(hold.kills(start(hold.elsewhere + name, k_user, mount)));
}

TEST_CASE(
    "attack: what is kept is mounted in a name space of the user's, and nothing in it is open") {
  if (skipped_without_root()) return;
  const Hold hold;
  CHECK(hold.kills(start("/", k_user, [&] { return hold.mount_elsewhere(hold.path + "/12.0"); })));
  CHECK_FALSE(
      hold.kills(start("/", k_user, [&] { return hold.mount_elsewhere(hold.scratch.path()); })));
}

namespace {

// Sends a descriptor of that file to the process itself, and keeps no other.
bool send_to_itself(const std::string& path) {
  int pair[2];
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0 || ::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return false;
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  return ::sendmsg(pair[0], &message, 0) == 1 && ::close(file) == 0;
}

}  // namespace

TEST_CASE("attack: what is kept is open only in a message that nobody receives") {
  if (skipped_without_root()) return;
  const Hold hold;
  CHECK(hold.kills(start("/", k_user, [&] { return send_to_itself(hold.path + "/12.0/file"); })));
  CHECK_FALSE(hold.kills(start("/", k_user, [] {
    int pair[2];
    return ::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
  })));
}

TEST_CASE("attack: a program of root's with the worker's name, started by a user") {
  if (skipped_without_root()) return;
  const Hold hold;
  const std::string program = hold.scratch / "nodestage-worker";
  std::filesystem::copy_file("/bin/sh", program);
  CHECK(hold.kills(start(hold.path + "/12.0", k_user, no_preparation, program)));
}

TEST_CASE("attack: the same in the cgroup of a daemon that was started by hand") {
  if (skipped_without_root()) return;
  const Hold hold;
  for (const char* name : {"nodestaged", "nodestage-worker"})
    std::filesystem::copy_file("/bin/sh", hold.scratch / name);
  const pid_t daemon = start("/", 0, no_preparation, hold.scratch / "nodestaged");
  const auto worker = [&] {
    return start(hold.path + "/12.0", k_user, no_preparation, hold.scratch / "nodestage-worker");
  };
  const pid_t of_the_daemon = worker();
  const auto one = [=] { return std::optional(Pids{std::to_string(of_the_daemon)}); };
  CHECK_FALSE(hold.kills(of_the_daemon, one));
  CHECK(hold.kills(worker(), one));
  // A daemon that does not answer spares these programs, and no others.
  const auto none = [] { return std::optional<Pids>(); };
  CHECK_FALSE(hold.kills(worker(), none));
  CHECK(hold.kills(start(hold.path + "/12.0", k_user), none));
  ::kill(daemon, SIGKILL);
  CHECK(::waitpid(daemon, nullptr, 0) == daemon);
}

TEST_CASE("attack: many programs of the worker's name are one question to the daemon in a look") {
  if (skipped_without_root()) return;
  constexpr std::size_t k_programs = 24;  // more than there are looks
  const Hold hold;
  const std::string program = hold.scratch / "nodestage-worker";
  std::filesystem::copy_file("/bin/sh", program);
  std::vector<int> started;
  while (started.size() < k_programs)
    started.push_back(start(hold.path + "/12.0", k_user, no_preparation, program));
  const std::string questions = hold.scratch / "questions";
  // Another process asks.
  const KilledWriters killed = kill_left_writers(hold.path, k_ended, [&] {
    std::ofstream(questions, std::ios::app) << '?';
    return no_worker();
  });
  for (const int pid : started) {
    ::kill(pid, SIGKILL);
    CHECK(::waitpid(pid, nullptr, 0) == pid);
  }
  CHECK(killed.size() == started.size());
  for (const int pid : started) CHECK(killed.contains(pid));
  CHECK(std::filesystem::file_size(questions) < k_programs);
}

TEST_CASE("a worker in its cgroup is spared, whatever its program is") {
  if (skipped_without_root()) return;
  const std::string cgroup = make_cgroup("nodestage-worker-test." + std::to_string(::getpid()));
  if (cgroup.empty()) {
    MESSAGE("skipped: no cgroup can be made here");
    return;
  }
  const Hold hold;
  CHECK_FALSE(hold.kills(start(hold.path + "/12.0", k_user, [&] { return enter(cgroup); })));
  CHECK(::rmdir(cgroup.c_str()) == 0);
}

TEST_CASE("attack: another job of the user is not killed for what others make it seem to have") {
  if (skipped_without_root()) return;
  const Hold hold;
  const EndedJob ended{static_cast<std::uint32_t>(::getpid()), k_user};
  const auto kills = [&](pid_t process) { return hold.kills(process, no_worker, ended); };
  const std::string log = hold.elsewhere + "/log";  // of a job whose files the ended one has linked
  std::filesystem::create_hard_link(hold.path + "/12.0/file", log);
  const auto receive = [] { return send_to_itself("/dev/null"); };
  const auto append = [&] { return ::open(log.c_str(), O_WRONLY | O_APPEND) >= 0; };
  for (const bool is_other : {true, false}) {
    const std::string cgroup =
        make_cgroup(std::string("job_") + (is_other ? "1" : "") + std::to_string(ended.job));
    if (cgroup.empty()) {
      MESSAGE("skipped: no cgroup can be made here");
      return;
    }
    const auto in_it = [&](const std::function<bool()>& act) {
      return [&cgroup, act] { return enter(cgroup) && act(); };
    };
    CHECK(kills(start("/", k_user, in_it(receive))) != is_other);
    CHECK(kills(start("/", k_user, in_it(append))) != is_other);
    CHECK_FALSE(kills(start(log, k_user, in_it(no_preparation))));  // which only reads
    CHECK(kills(start(hold.path + "/12.0/file", k_user, in_it(no_preparation))));
    CHECK(::rmdir(cgroup.c_str()) == 0);
  }
  // Of no job, or of one that cannot be known.
  CHECK_FALSE(kills(start(log, k_user)));
  CHECK(kills(start("/", k_user, append)));
  CHECK(kill_left_writers(hold.path, ended, no_worker).empty());
  const pid_t hiding = start("/", k_user, receive);
  CHECK(kill_left_writers(hold.path, {ended.job, k_user, false}, no_worker).empty());
  CHECK(kill_left_writers(hold.path, ended, no_worker) == KilledWriters{{hiding, Proof::hidden}});
  CHECK(::waitpid(hiding, nullptr, 0) == hiding);
}
