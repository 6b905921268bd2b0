// What both `nodestage plan` and a job's output say of a directory that is better packed.
#pragma once

#include <cstdint>
#include <string>

#include "common/text/human.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {

// From this number of files on, an archive is read faster from a shared file system.
inline constexpr std::uint64_t k_many_files = 2000;

// Returns the command that packs the directory, to be pasted. If `path` cannot be shown as it is,
// or is empty because it is not known, returns a sentence that names the verb.
inline std::string how_to_pack(const std::string& path) {
  if (path.empty() || printable(path) != path) return "nodestage pack makes one";
  return "nodestage pack " + shell_word(path) + " -o " +
         shell_word(default_destination(path) + ".tar.zst");
}

}  // namespace nodestage
