// Attack: a user sends a descriptor with a request, whose release takes as long as the user likes.
// The daemon has one thread, and root's prolog must be answered meanwhile. Here it is a TCP
// connection that lingers, which any user can make; a large file that is removed, or a file of a
// server that does not answer, is no other case.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "../unit/daemon_node.hpp"

using namespace nodestage;

namespace {

constexpr int k_linger_s = 30;
constexpr std::uint32_t k_sender = 1001;

template <typename Address>
const sockaddr* any(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Who closes the last descriptor of it waits for k_linger_s: nobody reads what it has to send.
struct Lingering {
  Fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Fd other = {};
  Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

  Lingering() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener.get(), any(address), size) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    REQUIRE(::connect(fd.get(), any(address), size) == 0);
    other = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string much(1 << 16, 'x');
    while (::send(fd.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) continue;
    const linger lingers{1, k_linger_s};
    REQUIRE(::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &lingers, sizeof lingers) == 0);
  }
};

// A connection of the attacker's.
struct Attacker {
  Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};

  explicit Attacker(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    REQUIRE(::seteuid(k_sender) == 0);
    const bool is_connected = ::connect(fd.get(), any(address), sizeof address) == 0;
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(is_connected);
  }
  void say(std::string_view bytes) const {
    static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // Returns whether it could be sent; then the packet has the last reference to it.
  bool say(std::string_view bytes, Fd with) const {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = with.get();
    std::memcpy(CMSG_DATA(head), &number, sizeof number);
    if (::sendmsg(fd.get(), &message, MSG_NOSIGNAL) >= 0) return true;
    const linger none{0, 0};
    REQUIRE(::setsockopt(with.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    return false;
  }
};

// As a kernel before 6.16, whose sockets take descriptors from everybody.
void take_descriptors() {
  constexpr int k_passes_rights = 83;
  const int yes = 1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    static_cast<void>(::setsockopt(fd, SOL_SOCKET, k_passes_rights, &yes, sizeof yes));
  }
}

struct Site : ServedNode {
  Site() {
    config.daemon.max_connections = 8;
    jobs.recover();
    listen();
  }
  // How long root waits for an answer.
  Clock::duration wait_of_root() {
    const auto begun = Clock::now();
    auto root = must(DaemonConnection::open(root_socket(config.daemon.socket)));
    REQUIRE(root.send(HeldQuery{}, limit));
    static_cast<void>(must(answer(root)));
    return Clock::now() - begun;
  }
};

struct Way {
  const char* name;
  std::function<bool(Site&, std::vector<Attacker>&, Fd)> send;
};

Attacker& connect(Site& site, std::vector<Attacker>& all) {
  return all.emplace_back(site.config.daemon.socket);
}

const Way k_ways[] = {
    {"with the request",
     [](Site& site, auto& all, Fd fd) {
       return connect(site, all).say(encode_message(HeldQuery{}), std::move(fd));
     }},
    {"with no byte, behind a packet without one",
     [](Site& site, auto& all, Fd fd) {
       const Attacker& attacker = connect(site, all);
       attacker.say("");
       attacker.say("");
       return attacker.say("", std::move(fd));
     }},
    {"behind the request",
     [](Site& site, auto& all, Fd fd) {
       const Attacker& attacker = connect(site, all);
       attacker.say(encode_message(HeldQuery{}));
       return attacker.say("x", std::move(fd));
     }},
    {"when it was answered",
     [](Site& site, auto& all, Fd fd) {
       const Attacker& attacker = connect(site, all);
       attacker.say(encode_message(HeldQuery{}));
       site.run(std::chrono::milliseconds(20));
       return attacker.say("x", std::move(fd));
     }},
    {"and is gone",
     [](Site& site, auto& all, Fd fd) {
       const bool is_sent = connect(site, all).say("x", std::move(fd));
       all.clear();
       return is_sent;
     }},
    {"by more connections than one may have",
     [](Site& site, auto& all, Fd fd) {
       for (int i = 0; i < 8; ++i) connect(site, all).say("");
       return connect(site, all).say("x", std::move(fd));
     }},
};

}  // namespace

TEST_CASE("attack: a descriptor that cannot be closed comes with a request") {
  if (skipped_without_root()) return;
  for (const Way& way : k_ways) {
    CAPTURE(way.name);
    const auto begun = Clock::now();
    Site site;
    take_descriptors();
    std::vector<Attacker> attackers;
    Lingering lingering;
    REQUIRE(way.send(site, attackers, std::move(lingering.fd)));
    for (int i = 0; i < 3; ++i) {
      CHECK(site.wait_of_root() < std::chrono::seconds(k_linger_s / 2));
      site.run(std::chrono::milliseconds(20));
    }
    attackers.clear();
    CHECK(site.wait_of_root() < std::chrono::seconds(k_linger_s / 2));
    CHECK(Clock::now() - begun < std::chrono::seconds(k_linger_s));
  }
}

TEST_CASE("attack: the same, and the daemon ends") {
  if (skipped_without_root()) return;
  for (const bool is_accepted : {false, true}) {
    Site site;
    take_descriptors();
    Lingering lingering;
    const Attacker attacker(site.config.daemon.socket);
    if (is_accepted) site.run(std::chrono::milliseconds(20));
    REQUIRE(attacker.say("x", std::move(lingering.fd)));
    const auto begun = Clock::now();
    site.server.reset();
    CHECK(Clock::now() - begun < std::chrono::seconds(k_linger_s / 2));
  }
}

TEST_CASE("a kernel that can refuse descriptors does so for the daemon") {
  if (skipped_without_root()) return;
  int value = 0;
  socklen_t size = sizeof value;
  const Fd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::getsockopt(probe.get(), SOL_SOCKET, 83, &value, &size) != 0) {
    MESSAGE("skipped: the kernel is older than Linux 6.16");
    return;
  }
  Site site;
  const Attacker attacker(site.config.daemon.socket);
  CHECK_FALSE(attacker.say("x", std::move(Lingering().fd)));
  site.run(std::chrono::milliseconds(20));
  CHECK_FALSE(attacker.say("x", std::move(Lingering().fd)));
  CHECK(site.wait_of_root() < std::chrono::seconds(k_linger_s / 2));
}
