// Proves a note by the credential that carries it and the address that it came from. All calls may
// block (munged, the daemon's signer, the resolver), and several threads may make them at once.
// Faults say what an administrator should check; their texts are printable.
#pragma once

#include <functional>
#include <string>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/peer/addresses.hpp"

namespace nodestage {

// Returns the payload of a credential that uid 0 made for this process's user.
using OpenCredential = std::function<Result<std::string>(const std::string& credential)>;

// Returns an opener that asks munged. `socket` is for tests; empty: MUNGE's default.
OpenCredential munge_opener(const std::string& socket = {});

// Returns an opener that asks the daemon's signer, which alone has the key of the cluster, over
// this end of the pair k_signer_fd (common/wire/peer_note.hpp).
OpenCredential signer_opener(Fd signer);

// Returns one that passes each kind of credential to its opener.
OpenCredential opener_for_each(OpenCredential by_munge, OpenCredential by_signer);

// Returns the credential's payload after proving that it is a PeerNote and was sent from an address
// of the node in its `from`.
Result<std::string> verified_note(const std::string& credential, const Address& source,
                                  const OpenCredential& open, AddressBook& book);

}  // namespace nodestage
