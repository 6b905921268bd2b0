// The type of a file system, as a relay's list of them names it.
#pragma once

#include <fcntl.h>

#include <string>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "texts.hpp"

// "ext4", of the one that has the path.
inline std::string type_of_file_system(const std::string& path) {
  const nodestage::Fd here(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const auto mounts = must(nodestage::read_mountinfo());
  return std::string(must(nodestage::find_mount(mounts, nodestage::mount_of(here.get()))).type);
}
