#include "daemon/peer/credential.hpp"

#include <algorithm>

#include "common/text/human.hpp"
#include "common/wire/peer_note.hpp"

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

}  // namespace nodestage
