#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"
#include "daemon/root/nodes/signer.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// A signer in a process of its own, with both of its sockets in the test's hand.
class SignerRun {
 public:
  explicit SignerRun(const KeyLocations& places) {
    int daemon[2];
    int peer[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, daemon) != 0 ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, peer) != 0)
      throw std::runtime_error("socketpair");
    daemon_ = Fd(daemon[0]);
    peer_ = Fd(peer[0]);
    const Fd theirs(daemon[1]);
    const Fd others(peer[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    const bool placed = static_cast<bool>(place_descriptors(
        {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO, theirs.get(), others.get()}));
    ::_exit(placed ? run_signer("no-such-user", places) : 126);
  }
  SignerRun(const SignerRun&) = delete;
  SignerRun& operator=(const SignerRun&) = delete;
  ~SignerRun() {
    daemon_.reset();
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] SignReply ask(const SignRequest& request) const {
    return must(decode_sign_reply(exchange(daemon_, encode_sign_request(request))));
  }
  // As nodestage-peer has it opened: "1" and the payload, or "0" and the fault.
  [[nodiscard]] std::string open(const std::string& credential) const {
    WireEncoder question;
    question.u64(1ULL << 40), question.text(credential);
    const std::string answer = exchange(peer_, question.data());
    WireDecoder in(answer);
    CHECK(in.u64() == 1ULL << 40);
    const std::string opened = in.u8() == 1 ? "1" : "0";
    return opened + in.text();
  }
  void close_peer() { peer_.reset(); }

 private:
  static std::string exchange(const Fd& fd, const std::string& packet) {
    if (::send(fd.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) return "";
    std::string answer(k_max_channel_bytes, '\0');
    const ssize_t count = ::recv(fd.get(), answer.data(), answer.size(), 0);
    answer.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return answer;
  }

  Fd daemon_;
  Fd peer_;
  pid_t pid_ = -1;
};

KeyLocations with_key(const std::string& path) {
  std::ofstream(path) << std::string(32, 'k');
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return {path, {}};
}

}  // namespace

TEST_CASE("signer: with a key it makes credentials for the daemon, and opens them for the peer") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  SignerRun signer(with_key(scratch / "key"));
  const SignReply tried = signer.ask({7, true, ""});
  CHECK(tried.id == 7);
  CHECK(tried.fault.empty());
  CHECK(tried.credential.empty());
  CHECK(tried.method == "the key in " + scratch / "key");
  const SignReply made = signer.ask({8, false, "a note"});
  CHECK(made.credential.starts_with(k_key_credential_magic));
  CHECK(signer.open(made.credential) == "1a note");
  CHECK(has(signer.open(made.credential), "used before"));
  CHECK(signer.open("garbage") == "0what it sent is not a credential");
  // The peer cannot have one made: what the daemon would send is a credential to open.
  CHECK(signer.open(encode_sign_request({9, false, "forged"})).front() == '0');
  // It is not needed for that.
  signer.close_peer();
  CHECK(signer.ask({10, false, "another"}).fault.empty());
}

TEST_CASE("signer: a key that is set and cannot be used is the fault, whatever MUNGE does") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  const KeyLocations places = with_key(scratch / "key");
  REQUIRE(::chmod((scratch / "key").c_str(), 0644) == 0);
  const SignerRun signer(places);
  const SignReply tried = signer.ask({1, true, ""});
  CHECK(has(tried.fault, "every user"));
  CHECK(tried.method.empty());
  CHECK(has(signer.ask({2, false, "a note"}).fault, "every user"));
  CHECK(has(signer.open("NSK1"), "every user"));
}

TEST_CASE("signer: without a key it opens nothing, and says why") {
  if (skipped_without_root()) return;
  const SignerRun signer({"", {}});
  const std::string answer = signer.open(std::string("NSK1") + std::string(100, 'x'));
  CHECK(answer.front() == '0');
  CHECK(has(answer, "this node has none"));
}
