// PluginFile: the version numbers that spank_nodestage.so exports, read from the file's symbols,
// since only Slurm's programs can load it.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

struct PluginFile {
  std::string path;
  std::uint32_t slurm_version = 0;  // plugin_version: major << 16 | minor << 8 | micro
  std::uint32_t version =
      0;                 // spank_plugin_version, nodestage's: major * 1e6 + minor * 1e3 + patch
  timespec installed{};  // when the file was installed (ctime)
};

// Fails if there is no such file, or Slurm could not load it as a plugin.
Result<PluginFile> read_plugin_file(const std::string& path);

// Returns whether it is a shared object that exports that function. Takes any file.
bool exports(const std::string& path, std::string_view function);

}  // namespace nodestage
