#include "daemon/root/nodes/signer.hpp"

#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "common/wire/peer_channel.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"
#include "daemon/root/nodes/credential.hpp"
#include "daemon/root/workers/privileges.hpp"

namespace nodestage {
namespace {

std::optional<uid_t> uid_of(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr || entry->pw_uid == 0) return {};
  return entry->pw_uid;
}

SignReply sign(const std::string& user, const SignRequest& request) {
  SignReply reply{request.id, {}, {}};
  const auto uid = uid_of(user);
  if (!uid) {
    reply.fault = "the user '" + user + "' does not exist on this node (peer.user)";
    return reply;
  }
  auto credential = make_credential(request.payload, *uid);
  if (credential)
    reply.credential = std::move(*credential);
  else
    reply.fault = credential.error().what;
  return reply;
}

std::string encode_sign_reply(const SignReply& reply) {
  WireEncoder out;
  out.u64(reply.id), out.text(reply.credential), out.text(reply.fault);
  return out.data();
}

}  // namespace

std::string encode_sign_request(const SignRequest& request) {
  WireEncoder out;
  out.u64(request.id), out.text(request.payload);
  return out.data();
}

Result<SignReply> decode_sign_reply(std::string_view packet) {
  WireDecoder in(packet);
  SignReply reply;
  reply.id = in.u64(), reply.credential = in.text(), reply.fault = in.text();
  if (!in.finished()) return Error{EPROTO, "a reply of the signer with wrong fields"};
  return reply;
}

int run_signer(const std::string& user) {
  ::prctl(PR_SET_NAME, "nodestaged-sign");
  ::signal(SIGPIPE, SIG_IGN);  // from munged's socket
  if (!drop_capabilities()) return 1;
  std::string packet(k_max_note_bytes + 64, '\0');
  for (;;) {
    const ssize_t count = ::recv(k_peer_channel_fd, packet.data(), packet.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return 0;  // the daemon has exited
    WireDecoder in(std::string_view(packet).substr(0, static_cast<std::size_t>(count)));
    SignRequest request;
    request.id = in.u64(), request.payload = in.text();
    if (!in.finished()) return 1;
    const std::string reply = encode_sign_reply(sign(user, request));
    if (::send(k_peer_channel_fd, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return 1;
  }
}

}  // namespace nodestage
