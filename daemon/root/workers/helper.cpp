#include "daemon/root/workers/helper.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/wire/peer_channel.hpp"
#include "daemon/root/basis/connection_closer.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
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

}  // namespace nodestage
