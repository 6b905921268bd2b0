// Conda environments, also those of mamba, micromamba and pixi: what their records say about a
// move, and how a shell activates them. All names are below the environment; no link is followed.
//
//   conda-meta/PACKAGE.json    {"paths_data": {"paths": [{"_path": "lib/x", "prefix_placeholder":
//                              "/the/prefix/when/it/was/packed", "file_mode": "text" or
//                              "binary"}]}}
//   conda-meta/state           {"env_vars": {NAME: VALUE}}, set by the user
//   etc/conda/env_vars.d       NAME.json, {NAME: VALUE}, of packages
//   etc/conda/activate.d       NAME.sh, which `conda activate` sources in the order of their names
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/venv/venv_text.hpp"

namespace nodestage {

// A file that contains the environment's path.
struct PrefixFile {
  enum class Mode { text, binary } mode;
  std::size_t placeholder;  // the length of the prefix in its package
};
using PrefixFiles = std::map<std::string, PrefixFile>;

// Reads the records of the environment in dir_fd. The paths are as they are there: do not open one
// but beneath the environment. `source` is for messages. A fault names a damaged record.
Result<PrefixFiles> prefix_files(int dir_fd, const std::string& source, const Meter& meter);

// Returns a fault if a file in dir_fd has no room for the path to which it will be moved.
Status check_room(int dir_fd, const PrefixFiles& files, const VenvMove& move);
// The fault for such a file, whose content is `data`.
Error no_room(const std::string& path, std::string_view data, const VenvMove& move);

// A file's content, mapped. One that another process makes shorter meanwhile ends this process.
class MappedFile {
 public:
  // A size of 0 cannot be mapped.
  MappedFile(int fd, std::size_t size)
      : size_(size), data_(::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0)) {}
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  [[nodiscard]] bool is_mapped() const { return data_ != MAP_FAILED; }
  [[nodiscard]] std::string_view data() const { return {static_cast<const char*>(data_), size_}; }

 private:
  std::size_t size_;
  void* data_;
};

// Writes bin/activate, unless there is one, for an environment whose path will be `path`. Returns
// whether it does what the variables of a job cannot do.
Result<bool> write_activation(int dir_fd, const std::string& path);

}  // namespace nodestage
