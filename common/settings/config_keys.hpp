// The table of all keys of nodestaged.toml, with what each one accepts.
#pragma once

#include <vector>

#include "common/settings/config_values.hpp"

namespace nodestage {

struct ConfigKey {
  const char* section;
  const char* name;
  Setter set;
};

// Those of a section are neighbors.
const std::vector<ConfigKey>& all_config_keys();

}  // namespace nodestage
