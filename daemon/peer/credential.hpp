// What proves a note: the MUNGE credential that carries it, and the address that it came from.
// Both calls may block (munged, the resolver) and may be made by several threads at once. Their
// faults say what an administrator would check; texts in them are printable.
#pragma once

#include <functional>
#include <string>

#include "common/result.hpp"
#include "daemon/peer/addresses.hpp"

namespace nodestage {

// The payload of a credential that uid 0 has made for this process's user.
using OpenCredential = std::function<Result<std::string>(const std::string& credential)>;

// By munged. `socket`: for tests; empty: MUNGE's own.
OpenCredential munge_opener(std::string socket = {});

// The payload of the credential, once it is shown to be a PeerNote that was sent from an address of
// the node in its `from`.
Result<std::string> verified_note(const std::string& credential, const Address& source,
                                  const OpenCredential& open, AddressBook& book);

}  // namespace nodestage
