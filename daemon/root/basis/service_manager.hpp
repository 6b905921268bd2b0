// What started the daemon: systemd, and its journal. A build without systemd (NODESTAGE_SYSTEMD)
// sends nothing; k_with_systemd (common/build_info.hpp) says which one this is.
#pragma once

#include <string>
#include <vector>

namespace nodestage {

// As sd_notify(3): "READY=1", "STOPPING=1". Nothing happens if nobody listens.
void notify_service_manager(const char* state);

// Sends a line as journal fields ("NAME=value"); false: it was not sent.
[[nodiscard]] bool send_to_journal(const std::vector<std::string>& fields);

}  // namespace nodestage
