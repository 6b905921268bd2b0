#include "daemon/peer/credential.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

Result<std::string> verified_note(const std::string& credential, const Address& source,
                                  const OpenCredential& open, AddressBook& book) {
  TRY_ASSIGN(std::string payload, open(credential));
  TRY_ASSIGN(const PeerNote note, decode_peer_note(payload));
  TRY_ASSIGN(const Addresses addresses, book.find(note.from));
  const bool listed = std::any_of(addresses.begin(), addresses.end(), [&](const Address& address) {
    return comparable(address) == comparable(source);
  });
  if (listed) return payload;
  const std::string node = printable(note.from);
  return Error{EACCES, "its note is of node " + node + ", whose addresses on this node are " +
                           address_text(addresses) + ": if " + node +
                           " sends from this address too, name it in peer.addresses"};
}

// Credentials that the daemon's signer opens.

namespace {

constexpr std::size_t k_shown = 500;

// One question at a time. An answer to another question is one to an earlier nodestage-peer.
class SignerSocket {
 public:
  explicit SignerSocket(Fd fd) : fd_(std::move(fd)) {}

  Result<std::string> open(const std::string& credential) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = next_id_++;
    WireEncoder question;
    question.u64(id), question.text(credential);
    if (::send(fd_.get(), question.data().data(), question.data().size(), MSG_NOSIGNAL) < 0)
      return no_signer();
    for (;;) {
      const ssize_t count = ::recv(fd_.get(), packet_.data(), packet_.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return no_signer();
      WireDecoder in(std::string_view(packet_).substr(0, static_cast<std::size_t>(count)));
      if (in.u64() != id) continue;
      const bool is_open = in.u8() == 1;
      std::string text = in.text();
      if (!in.finished()) return no_signer();
      if (is_open) return text;
      return Error{EACCES, printable(shortened(text, k_shown))};
    }
  }

 private:
  static Error no_signer() {
    return {EPIPE, "the daemon's signer, which has the key, does not answer"};
  }

  std::mutex mutex_;
  Fd fd_;
  std::uint64_t next_id_ = wall_ns();  // no earlier nodestage-peer has asked with it
  std::string packet_ = std::string(k_max_channel_bytes, '\0');
};

}  // namespace

OpenCredential signer_opener(Fd signer) {
  return [socket = std::make_shared<SignerSocket>(std::move(signer))](
             const std::string& credential) { return socket->open(credential); };
}

OpenCredential opener_for_each(OpenCredential by_munge, OpenCredential by_signer) {
  return [by_munge = std::move(by_munge),
          by_signer = std::move(by_signer)](const std::string& credential) {
    return credential.starts_with(k_key_credential_magic) ? by_signer(credential)
                                                          : by_munge(credential);
  };
}

}  // namespace nodestage
