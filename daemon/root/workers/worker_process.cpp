#include "daemon/root/workers/worker_process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <span>

#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"
#include "daemon/root/basis/connection_closer.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

using Capabilities = std::unique_ptr<void, int (*)(void*)>;

Status keep_capabilities(std::span<const cap_value_t> kept) {
  const Capabilities set(::cap_init(), ::cap_free);
  if (!set) return system_error("cap_init");
  auto* caps = static_cast<cap_t>(set.get());
  for (const cap_flag_t flag : {CAP_PERMITTED, CAP_EFFECTIVE}) {
    if (kept.empty()) break;  // cap_set_flag refuses an empty list; a new set is empty
    if (::cap_set_flag(caps, flag, static_cast<int>(kept.size()), kept.data(), CAP_SET) != 0)
      return system_error("cap_set_flag");
  }
  if (::cap_set_proc(caps) != 0) return system_error("cap_set_proc");
  return {};
}

// Drops what a later execve could give back.
Status drop_bounding_set(std::span<const cap_value_t> kept) {
  for (cap_value_t cap = 0; CAP_IS_SUPPORTED(cap); ++cap) {
    const bool is_kept = std::find(kept.begin(), kept.end(), cap) != kept.end();
    if (!is_kept && ::cap_drop_bound(cap) != 0) return system_error("cap_drop_bound");
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

namespace {

constexpr std::size_t k_max_unsent = 20'000;

int be_the_child(const Helper::Body& body, int channel, int to_other, int null) {
  static_assert(k_peer_channel_fd == 3 && k_signer_fd == 4);
  const Status placed =
      place_descriptors({null, STDERR_FILENO, STDERR_FILENO, channel, to_other, null});
  if (!placed || !reset_process()) return 126;
  return body();
}

}  // namespace

Result<std::unique_ptr<Helper>> Helper::start(Loop& loop, const Body& body, const Fd& to_other,
                                              OnPacket on_packet, OnEnd on_end) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("socketpair");
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  for (const int end : ends) refuse_descriptors(end);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  const auto life = [&] { return be_the_child(body, theirs.get(), to_other.get(), null.get()); };
  TRY_ASSIGN(ChildProcess child, ChildProcess::start(Orphan::killed, life));
  std::unique_ptr<Helper> helper(new Helper(loop, std::move(on_packet), std::move(on_end)));
  helper->child_ = std::move(child);
  helper->channel_ = std::move(ours);
  TRY_ASSIGN(helper->pid_fd_, open_pid(helper->child_.pid()));
  TRY(helper->watch());
  return helper;
}

Status Helper::watch() {
  TRY(loop_.watch(channel_.get(), [this] { readable(); }));
  return loop_.watch(pid_fd_.get(), [this] { ended(); });
}

Helper::~Helper() {
  if (channel_) loop_.forget(channel_.get());
  if (pid_fd_) loop_.forget(pid_fd_.get());
}

void Helper::readable() {
  static std::string packet(k_max_channel_bytes, '\0');  // one thread, one buffer
  const ssize_t count = ::recv(channel_.get(), packet.data(), packet.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {  // the child has closed its end; pid_fd_ reports its exit
    open_ = false;
    loop_.forget(channel_.get());
    child_.signal(SIGKILL);
    return;
  }
  on_packet_(std::string_view(packet).substr(0, static_cast<std::size_t>(count)));
}

bool Helper::send(std::string packet) {
  if (!open_ || unsent_.size() >= k_max_unsent) return false;
  unsent_.push_back(std::move(packet));
  if (unsent_.size() == 1) flush();
  return true;
}

void Helper::flush() {
  if (!open_) return;
  while (!unsent_.empty()) {
    const std::string& packet = unsent_.front();
    const ssize_t sent =
        ::send(channel_.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EMSGSIZE)
      log::error("a message of {} bytes to a child is too long", packet.size());
    unsent_.pop_front();  // another fault: it is exiting, and ended() reports that
  }
  const bool more = !unsent_.empty();
  static_cast<void>(loop_.want_write(
      channel_.get(), more ? Loop::Callback([this] { flush(); }) : Loop::Callback()));
}

void Helper::ended() {
  if (!child_.reap()) return;
  loop_.forget(pid_fd_.get());
  const OnEnd on_end = on_end_;
  on_end();
}

namespace {

// Reopens what the daemon writes and the worker must not, for reading only. -1: an empty file.
Result<Fd> for_reading(int fd) {
  return open_at(AT_FDCWD, fd < 0 ? "/dev/null" : "/proc/self/fd/" + std::to_string(fd), O_RDONLY);
}

// The child's whole life up to execve; returns only a fault.
Status become_worker(const WorkerStart& start, const Cgroups& cgroups) {
  TRY(cgroups.enter(start.cgroup));
  const Status entered = start.job_cgroup.empty() ? Status() : enter_job_cgroup(start.job_cgroup);
  if (!entered) {
    const int code = entered.error().code;
    if (code == ENOENT || code == ENODEV)
      return Error{WorkerProcess::k_step_gone,
                   "the job's step, whose memory cgroup it was to enter, had ended"};
    return Error{code, "the job's memory cgroup cannot be entered: " + start.job_cgroup};
  }
  TRY(reset_process());
  if (::access(start.program.c_str(), X_OK) != 0) return system_error(start.program);
  const OrderHead& order = head_of(start.order);
  if (order.uid == 0 && std::holds_alternative<RemoveOrder>(start.order)) {
    TRY(become_remover());
  } else {
    TRY(become({order.uid, order.gid, order.user}, start.groups));
  }
  return exec_worker(start.program);
}

}  // namespace

std::chrono::milliseconds age_of(const ProcessMark& mark) {
  timespec up{};
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  const auto now_ms = static_cast<std::int64_t>(up.tv_sec) * 1000 + up.tv_nsec / 1'000'000;
  const auto ticks_a_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const auto begun_ms = static_cast<std::int64_t>(mark.start_ticks * 1000 / ticks_a_second);
  return std::chrono::milliseconds(std::max<std::int64_t>(now_ms - begun_ms, 0));
}

Result<WorkerProcess> WorkerProcess::start(const WorkerStart& start, const Cgroups& cgroups) {
  TRY_ASSIGN(const Fd order, sealed_text("order", encode_order(start.order)));
  TRY_ASSIGN(const Fd request, sealed_text("request", start.request));
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  TRY_ASSIGN(Pipe started, make_pipe());
  TRY_ASSIGN(Pipe log, make_pipe());
  // With write access, a worker could change every worker's rate and admit itself.
  TRY_ASSIGN(const Fd rate, for_reading(start.rate_fd));
  TRY_ASSIGN(const Fd answer, for_reading(start.answer_fd));

  WorkerProcess process;
  const auto descriptors = worker_descriptors(null.get(), log.write.get(),
                                              {{k_worker_order_fd, order.get()},
                                               {k_worker_request_fd, request.get()},
                                               {k_worker_status_fd, start.status_fd},
                                               {k_worker_directory_fd, start.directory_fd},
                                               {k_worker_rate_fd, rate.get()},
                                               {k_worker_answer_fd, answer.get()},
                                               {k_worker_delivered_fd, start.delivered_fd},
                                               {k_worker_board_fd, start.board_fd},
                                               {k_worker_spool_fd, start.spool_fd},
                                               {k_worker_memory_fd, start.memory_fd},
                                               {k_worker_sources_fd, start.sources_fd},
                                               {k_worker_started_fd, started.write.get()}},
                                              start.fuse_fds);
  const auto body = [&] {
    const Status placed = place_descriptors(descriptors);
    if (!placed) return 126;
    const Status fault = become_worker(start, cgroups);
    WireEncoder out;
    out.i32(fault.error().code), out.text(fault.error().what);
    static_cast<void>(!write_all(k_worker_started_fd, out.data()));
    return 127;
  };
  TRY_ASSIGN(process.child_, ChildProcess::start(Orphan::left, body));
  const pid_t pid = process.child_.pid();
  process.mark_ = {pid, start_ticks_of(std::to_string(pid))};
  auto pid_fd = open_pid(pid);
  process.started_ = std::move(started.read);
  process.log_ = std::move(log.read);
  ::fcntl(process.log_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(process.started_.get(), F_SETFL, O_NONBLOCK);
  if (!pid_fd) {
    process.child_.signal(SIGKILL);
    static_cast<void>(process.child_.wait());
    return pid_fd.error();
  }
  process.pid_fd_ = std::move(*pid_fd);
  return process;
}

std::optional<WorkerProcess> WorkerProcess::adopt(const ProcessMark& mark) {
  if (mark.pid <= 0) return {};
  WorkerProcess process;
  process.mark_ = mark;
  auto pid_fd = open_pid(mark.pid);
  if (!pid_fd) return {};
  process.pid_fd_ = std::move(*pid_fd);
  if (start_ticks_of(std::to_string(mark.pid)) != mark.start_ticks) return {};
  return process;
}

Status WorkerProcess::read_start_fault() {
  const auto fault = read_all(started_.get(), 4096);
  started_.reset();
  if (!fault) return fault.error();
  if (fault->empty()) return {};
  WireDecoder in(*fault);
  const int code = in.i32();
  return Error{code, in.text()};
}

void WorkerProcess::kill() const {
  ::syscall(SYS_pidfd_send_signal, pid_fd_.get(), SIGKILL, nullptr, 0);
}

WorkerEnd WorkerProcess::reap() {
  using Kind = WorkerEnd::Kind;
  const auto status = child_.reap();
  if (!status) return {Kind::ended, "ended"};
  if (WIFSIGNALED(*status)) {
    const int signal = WTERMSIG(*status);
    if (signal == SIGSYS)
      return {Kind::killed, "was killed by SIGSYS: it made a system call that no worker makes"};
    return {Kind::killed,
            "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")"};
  }
  const int code = WEXITSTATUS(*status);
  return {code == 0 ? Kind::done : Kind::ended, "ended with code " + std::to_string(code)};
}

}  // namespace nodestage
