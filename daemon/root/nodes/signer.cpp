#include "daemon/root/nodes/signer.hpp"

#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "common/os/wall_clock.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"
#include "daemon/root/workers/worker_process.hpp"

namespace nodestage {
namespace {

std::optional<uid_t> uid_of(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr || entry->pw_uid == 0) return {};
  return entry->pw_uid;
}

std::string encode_sign_reply(const SignReply& reply) {
  WireEncoder out;
  out.u64(reply.id), out.text(reply.credential), out.text(reply.fault), out.text(reply.method);
  return out.data();
}

class Signer {
 public:
  Signer(std::string user, const KeyLocations& places)
      : user_(std::move(user)),
        key_goes_first_(!places.key_file.empty()),
        packet_(k_max_channel_bytes, '\0') {
    read_key(places);
  }

  int run() {
    std::array<pollfd, 2> polled{{{k_peer_channel_fd, POLLIN, 0}, {k_signer_fd, POLLIN, 0}}};
    for (;;) {
      if (::poll(polled.data(), polled.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return 1;
      }
      if (polled[0].revents != 0 && !serve_daemon()) return 0;
      // Without a nodestage-peer this goes on, until the daemon ends both.
      if (polled[1].revents != 0 && !serve_peer()) polled[1].fd = -1;
    }
  }

 private:
  // Runs as root still.
  void read_key(const KeyLocations& places) {
    auto keys = read_cluster_keys(places);
    if (!keys)
      key_fault_ = keys.error().text();
    else if (*keys)
      key_.emplace(std::move(**keys), wall_ms());
  }

  std::optional<std::string_view> receive(int fd) {
    ssize_t count = 0;
    do {
      count = ::recv(fd, packet_.data(), packet_.size(), 0);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) return {};
    return std::string_view(packet_).substr(0, static_cast<std::size_t>(count));
  }

  static bool send(int fd, const std::string& packet) {
    return ::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) >= 0;
  }

  // False when the daemon has exited.
  bool serve_daemon() {
    const auto packet = receive(k_peer_channel_fd);
    if (!packet) return false;
    WireDecoder in(*packet);
    SignRequest request;
    request.id = in.u64(), request.is_try = in.u8() != 0, request.payload = in.text();
    if (!in.finished()) return false;
    SignReply reply{request.id, {}, {}, {}};
    auto made = request.is_try ? try_method() : make(request.payload);
    if (made)
      reply.credential = std::move(*made);
    else
      reply.fault = made.error().what;
    reply.method = method();
    return send(k_peer_channel_fd, encode_sign_reply(reply));
  }

  bool serve_peer() {
    const auto packet = receive(k_signer_fd);
    if (!packet) return false;
    WireDecoder in(*packet);
    const std::uint64_t id = in.u64();
    const std::string credential = in.text();
    if (!in.finished()) return true;  // not of this release: no answer that it would understand
    const auto opened = open(credential);
    WireEncoder out;
    out.u64(id), out.u8(opened ? 1 : 0), out.text(opened ? *opened : opened.error().what);
    return send(k_signer_fd, out.data());
  }

  Result<std::string> open(std::string_view credential) {
    if (key_) return key_->open(credential, wall_ms());
    if (!key_fault_.empty()) return Error{ENOENT, key_fault_};
    return Error{ENOENT,
                 "its credential was made with a key of the cluster, and this node has none: Slurm "
                 "does not use auth/slurm here, and peer.key_file is not set"};
  }

  Result<std::string> make(const std::string& payload) {
    if (uses_key()) return key_->make(payload, wall_ms());
    if (key_goes_first_) return Error{EACCES, key_fault_};
    const auto uid = uid_of(user_);
    if (!uid)
      return Error{ENOENT, "the user '" + user_ + "' does not exist on this node (peer.user)"};
    return make_credential(payload, *uid);
  }

  // Settles the method, as far as it can be settled now. Returns an empty credential.
  Result<std::string> try_method() {
    if (!uses_key() && !key_goes_first_) {
      const Status munge = try_munge();
      if (munge) {
        munge_has_answered_ = true;
        TRY(make(""));  // its user is part of the method
        return std::string();
      }
      if (munge_has_answered_) return munge.error();
      if (!key_) return key_fault_.empty() ? munge.error() : Error{EACCES, key_fault_};
      key_has_worked_ = true;
    }
    if (!uses_key()) return Error{EACCES, key_fault_};
    TRY_ASSIGN(const std::string made, key_->make("try", wall_ms()));
    TRY(key_->open(made, wall_ms()));
    return std::string();
  }

  [[nodiscard]] bool uses_key() const { return key_ && (key_goes_first_ || key_has_worked_); }
  [[nodiscard]] std::string method() const {
    if (uses_key()) return "the key in " + key_->source();
    return munge_has_answered_ ? "MUNGE" : "";
  }

  std::string user_;
  bool key_goes_first_;
  bool key_has_worked_ = false;
  bool munge_has_answered_ = false;
  std::optional<KeyCredentials> key_;
  std::string key_fault_;  // why there is none though there should be
  std::string packet_;
};

}  // namespace

std::string encode_sign_request(const SignRequest& request) {
  WireEncoder out;
  out.u64(request.id), out.u8(request.is_try ? 1 : 0), out.text(request.payload);
  return out.data();
}

Result<SignReply> decode_sign_reply(std::string_view packet) {
  WireDecoder in(packet);
  SignReply reply;
  reply.id = in.u64(), reply.credential = in.text(), reply.fault = in.text();
  reply.method = in.text();
  if (!in.finished()) return Error{EPROTO, "a reply of the signer with wrong fields"};
  return reply;
}

int run_signer(const std::string& user, const KeyLocations& places) {
  ::prctl(PR_SET_NAME, "nodestaged-sign");
  ::signal(SIGPIPE, SIG_IGN);  // from munged's socket
  Signer signer(user, places);
  if (!drop_capabilities()) return 1;
  return signer.run();
}

}  // namespace nodestage
