// In a build without systemd.

#include <cstdlib>

#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/service_manager.hpp"

namespace nodestage {

void notify_service_manager(const char* state) {
  if (::getenv("NOTIFY_SOCKET") == nullptr) return;  // sd_notify(3)
  log::warn(
      "systemd waits for \"{}\", which this nodestaged cannot send, since it was built without "
      "systemd: set Type=exec in its unit, or build it with -DNODESTAGE_SYSTEMD=ON",
      state);
}

bool send_to_journal(const std::vector<std::string>&) { return false; }

}  // namespace nodestage
