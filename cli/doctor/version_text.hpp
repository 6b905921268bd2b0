// `nodestage --version --verbose`: this build, the libraries that it uses, and the kernel's
// features.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// What this host's kernel offers of what nodestage uses.
std::string landlock_text(int abi);  // 0: not available
bool has_openat2();

// PluginFile: the version numbers that spank_nodestage.so exports, read from the file's symbols,
// since only Slurm's programs can load it.
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

// Names and values, in the order in which they are shown.
using Facts = std::vector<std::pair<std::string, std::string>>;

std::string version_line();  // "nodestage 0.1.0"

// What can be found out without Slurm's daemons, nodestaged, or root.
Facts version_facts();

// Returns a line for each: the name, and the values below each other.
std::string facts_text(const Facts& facts);

// Returns the Slurm release of a plugin's version number: "22.05".
std::string slurm_release_text(std::uint32_t version);

}  // namespace nodestage
