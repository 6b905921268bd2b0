// Slurm's <spank.h> fit for C++, and typed access to what a hook may ask of it.
#pragma once

#include <sys/types.h>

#include <string>

// spank.h declares the hooks before it opens its own extern "C".
extern "C" {
#include <slurm/spank.h>
}

namespace nodestage {

// The item's value, or `fallback` where this context does not know it.
template <typename T>
T spank_item_or(spank_t spank, spank_item_t item, T fallback) {
  T value = fallback;
  return spank_get_item(spank, item, &value) == ESPANK_SUCCESS ? value : fallback;
}

// A variable of the job's environment (remote context only), or "" when it is not there or longer
// than a name has any reason to be.
inline std::string spank_variable(spank_t spank, const char* name) {
  char value[1024];
  if (spank_getenv(spank, name, value, sizeof value) != ESPANK_SUCCESS) return {};
  return value;
}

}  // namespace nodestage
