// PluginFile: what spank_nodestage.so tells without being loaded, which only Slurm's programs can:
// the numbers that it shows to Slurm, read from the file's symbols.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

#include "common/result.hpp"

namespace nodestage {

struct PluginFile {
  std::string path;
  std::uint32_t slurm_version = 0;  // plugin_version: major << 16 | minor << 8 | micro
  std::uint32_t version =
      0;                 // spank_plugin_version: nodestage's own: major * 1e6 + minor * 1e3 + patch
  timespec installed{};  // when the file came to its place (ctime)
};

// A fault: no such file, or none that Slurm could load as a plugin.
Result<PluginFile> read_plugin_file(const std::string& path);

}  // namespace nodestage
