// Finds out which TCP ports of this host are free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace nodestage {

struct FreePorts {
  std::size_t tried = 0;
  std::size_t free = 0;
  std::string fault;  // why the last one that is not free is not; "" if all are
};

// Binds each port of the range for a moment, on all addresses. Listens on none.
FreePorts find_free_ports(std::uint16_t first, std::uint16_t last);

}  // namespace nodestage
