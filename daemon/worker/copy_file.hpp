// The copy of one file's data into a new file.
#pragma once

#include <sys/stat.h>

#include <string_view>

#include "common/fd.hpp"
#include "daemon/worker/meter.hpp"
#include "daemon/worker/space.hpp"

namespace nodestage {

struct FileToCopy {
  int fd;                   // at any offset
  const struct stat& info;  // of it; info.st_size bytes are copied
  std::string_view name;    // for messages
};

// Into `to`, empty and open for writing: data with its holes (shared blocks where the file system
// can), then mode (without set-id bits) and mtime, then a checked close.
Status copy_file(const FileToCopy& from, Fd to, Meter& meter, Space& space);

// Copies mtime to a link or other entry; never follows it.
Status copy_times(int dir_fd, const char* name, const struct stat& info);

}  // namespace nodestage
