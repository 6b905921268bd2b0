// Attack: a user's request and sources go for the keeper, to whom all published trees belong, on a
// node whose kernel cannot confine it. It must not read them.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "../unit/scratch.hpp"
#include "../unit/texts.hpp"
#include "as_child.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/workers/worker_process.hpp"

using namespace nodestage;

namespace {

#ifdef SYS_landlock_create_ruleset
constexpr unsigned k_landlock = SYS_landlock_create_ruleset;
#else
constexpr unsigned k_landlock = 444;
#endif

// From here on, this process and its children run on a kernel without Landlock.
bool lose_landlock() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k_landlock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(rules), rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Why the task fails on such a kernel, with a request that cannot be read.
template <typename Order>
std::string cause_of(Order order) {
  const Scratch scratch;
  ::chmod(scratch.path().c_str(), 0755);
  std::filesystem::copy_file(NODESTAGE_WORKER, scratch / "worker");
  order.uid = order.gid = 65534;
  order.user = "nobody";
  order.node = "n1";
  order.directory = scratch.path();
  return as_child([&]() -> std::string {
    int ends[2];
    const Fd status(::memfd_create("status", MFD_CLOEXEC));
    const auto directory = open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY);
    if (!lose_landlock() || !directory ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      return "not prepared";
    ::close(ends[1]);  // no source is handed over
    WorkerStart start;
    start.program = scratch / "worker";
    start.order = order;
    start.groups = Groups::primary;
    start.request = "{";
    start.status_fd = status.get();
    start.directory_fd = directory->get();
    start.sources_fd = ends[0];
    auto process = WorkerProcess::start(start, Cgroups::none());
    if (!process) return process.error().what;
    pollfd ended{process->pid_fd(), POLLIN, 0};
    if (::poll(&ended, 1, -1) != 1) return "cannot be waited for";
    if (const Status begun = process->read_start_fault(); !begun) return begun.error().what;
    static_cast<void>(process->reap());
    const auto said = read_worker_status(status.get());
    return said && said->phase == WorkerPhase::failed ? said->cause : "not failed";
  });
}

}  // namespace

TEST_CASE("the keeper reads nothing that a user wrote where it cannot confine itself") {
  if (skipped_without_root()) return;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // as the worker asks
  MESSAGE("skipped: a worker with a sanitizer has no sandbox");
#else
  const char* const k_refusal = "the process that stages cannot confine itself on node 'n1'";
  CHECK(has(cause_of(LookOrder()), k_refusal));
  KeepOrder keep;
  keep.sandbox = SandboxNeed::required;
  CHECK(has(cause_of(keep), k_refusal));
  // A user's own worker goes on, to the request.
  CHECK(cause_of(IdentifyOrder()) == "the request is not JSON");
#endif
}
