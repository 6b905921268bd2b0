// nodestage-peer: carries the notes of this node's daemon to other nodes, and theirs to it.
//
// Inherits from nodestaged the uid and gid of the user `nodestage`, no capability, and descriptor
// 3 and 4, its ends of the channels to it and to its signer (common/wire/peer_note.hpp);
// descriptor 2 is the daemon's log. Verifies that no uid is 0 and that descriptors 3 and 4 are such
// sockets. Serves any host that connects to its TCP port, but passes on only what root of a host
// with the cluster's key made for it.
// Exits when the daemon closes its end of the channel: it outlives nothing.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "common/build_info.hpp"
#include "daemon/peer/peer.hpp"

namespace nodestage {
namespace {

constexpr char k_help[] =
    "nodestaged starts nodestage-peer; do not start it yourself. It carries the messages between\n"
    "the nodes of a job. Its settings are in the section [peer] of nodestaged.toml.\n";

int refuse() {
  std::fputs("nodestage-peer: only nodestaged starts this program, as an unprivileged user\n",
             stderr);
  return 2;
}

bool is_privileged() {
  uid_t real = 0;
  uid_t effective = 0;
  uid_t saved = 0;
  return ::getresuid(&real, &effective, &saved) != 0 || real == 0 || effective == 0 || saved == 0;
}

bool is_channel(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

// Raises the limit as far as possible; returns how many descriptors can be open.
std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Peer::Parts().descriptors;
  const std::size_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

int answer_person(std::string_view argument) {
  if (argument == "--version") return std::printf("nodestage-peer %s\n", k_version) < 0 ? 1 : 0;
  if (argument == "--help") return std::fputs(k_help, stdout) < 0 ? 1 : 0;
  return refuse();
}

int run() {
  if (is_privileged() || !is_channel(k_peer_channel_fd) || !is_channel(k_signer_fd))
    return refuse();
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  ::prctl(PR_SET_DUMPABLE, 0);
  Peer::Parts parts;
  parts.descriptors = raise_descriptor_limit();
  parts.open = opener_for_each(munge_opener(), signer_opener(Fd(k_signer_fd)));
  Peer peer(Fd(k_peer_channel_fd), std::move(parts));
  // Without destructors: a thread may still be in a long look-up.
  std::_Exit(peer.run());
}

}  // namespace
}  // namespace nodestage

// Catches the exceptions of libraries.
int main(int argc, char** argv) {
  try {
    return argc > 1 ? nodestage::answer_person(argv[1]) : nodestage::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nodestage-peer: %s\n", error.what());
    return 1;
  }
}
