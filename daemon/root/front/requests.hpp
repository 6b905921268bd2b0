// The requests that the daemon serves: those of k_message_kinds (common/wire/protocol.hpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {

struct RequestPacket {
  std::string_view bytes;
  std::vector<Fd> descriptors = {};  // of root alone
};

// Decodes one packet of a caller with `uid`, checks the table, and calls the handler, which answers
// through `reply` now or later. Refuses and logs what is not in the table. Returns the ticket of a
// later answer, or 0.
Ticket handle_request(Jobs& jobs, std::uint32_t uid, RequestPacket packet, const Reply& reply);

}  // namespace nodestage
