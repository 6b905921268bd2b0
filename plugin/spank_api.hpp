// Includes Slurm's <spank.h> for C++, and gives typed access to its items.
#pragma once

#include <sys/types.h>

#include <string>

// spank.h declares the hooks before it opens its own extern "C".
extern "C" {
#include <slurm/spank.h>
}

namespace nodestage {

// The item's value, or `fallback` if it is not available in this context.
template <typename T>
T spank_item_or(spank_t spank, spank_item_t item, T fallback) {
  T value = fallback;
  return spank_get_item(spank, item, &value) == ESPANK_SUCCESS ? value : fallback;
}

// Returns a variable of the job's environment (remote context only), or "" if it is not set or has
// 1,024 bytes or more.
inline std::string spank_variable(spank_t spank, const char* name) {
  char value[1024];
  if (spank_getenv(spank, name, value, sizeof value) != ESPANK_SUCCESS) return {};
  return value;
}

}  // namespace nodestage
