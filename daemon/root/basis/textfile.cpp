#include "daemon/root/basis/textfile.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "common/os/file.hpp"

namespace nodestage {

Status replace_textfile(const std::string& path, std::string_view text) {
  const std::size_t name = path.rfind('/') + 1;
  // node_exporter reads every file that ends in .prom, so the temporary name does not.
  const std::string temporary = path.substr(0, name) + "." + path.substr(name) + ".new";
  ::unlink(temporary.c_str());
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL, 0644));
  if (const Status written = write_all(fd.get(), text); !written) {
    ::unlink(temporary.c_str());
    return Error{written.error().code, temporary + ": " + written.error().what};
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error(path);
  return {};
}

}  // namespace nodestage
