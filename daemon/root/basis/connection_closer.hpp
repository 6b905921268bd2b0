// Connections of the unix sockets, read and closed so that the loop never releases what a caller
// has sent with a packet.
//
// Anybody who connects can send descriptors with a request, and nothing here asks for one. The
// packet may hold the last reference to the open file, and to release that takes as long as its
// owner likes: a large file that is removed, a file system that does not answer, a TCP connection
// that lingers. Where the kernel can (SO_PASSRIGHTS, Linux 6.16), such a send fails. Elsewhere a
// packet is looked at before it leaves the socket, and a connection with descriptors in it is
// closed by the exit of a child process, which may take forever.
//
// Limits: descriptors gather for a child, and wait the longer the more children do not exit. Where
// there are too many of both, is_full() says so, and nobody may be accepted any more.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

// Root's hooks send descriptors of /dev/fuse with one request, on root's own socket.

// From now on, to send a descriptor to this socket fails, or to what is accepted from it, where the
// kernel can see to that.
void refuse_descriptors(int socket);

struct Packet {
  enum class Kind {
    none,              // nothing has come yet
    plain,             // it was taken out of the socket
    end,               // nothing comes any more
    with_descriptors,  // it stays in the socket
  };
  Kind kind = Kind::none;
  std::string_view bytes;            // of a plain one; valid until the next call
  std::vector<Fd> descriptors = {};  // only of a caller from whom they are taken
};

enum class Descriptors { refused, taken };

// Prepares a connection for take_packet().
void accept_packets(int connection);
// Takes the next packet out of the connection, at most k_max_message_bytes + 1 bytes of it. Never
// blocks.
Packet take_packet(int connection, Descriptors descriptors = Descriptors::refused);

class ConnectionCloser {
 public:
  explicit ConnectionCloser(Loop& loop) : loop_(loop) {}
  // Leaves the rest to a child that nobody waits for.
  ~ConnectionCloser();
  ConnectionCloser(const ConnectionCloser&) = delete;

  // The other end reads what was sent to it, and then the end. accept_packets() was called.
  void close(Fd connection);
  [[nodiscard]] bool is_full() const;
  // Children that have not exited.
  [[nodiscard]] std::size_t children() const { return children_.size(); }

 private:
  struct Child {
    ChildProcess process;
    Fd pid_fd;
  };
  void wait();
  void start_child();
  void ended(int pid_fd);

  Loop& loop_;
  std::vector<Fd> held_;
  std::map<int, Child> children_;  // by the descriptor of the process
  std::optional<Loop::TimerId> timer_;
};

}  // namespace nodestage
