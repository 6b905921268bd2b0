#include "cli/pack/output_place.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "common/os/file.hpp"

namespace nodestage {

Result<OutputPlace> open_place(const std::string& output) {
  const std::size_t slash = output.rfind('/');
  const std::string parent = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : output.substr(0, slash);
  TRY_ASSIGN(Fd directory, open_at(AT_FDCWD, parent, O_RDONLY | O_DIRECTORY));
  return OutputPlace{std::move(directory), output.substr(slash + 1)};  // npos + 1 is 0
}

PendingNames pack_names() { return {".nodestage-pack-" + std::to_string(::getpid()) + "-"}; }

Status put_in_place(Fd file, const PendingName& pending, const OutputPlace& place,
                    Overwrite overwrite) {
  if (::fsync(file.get()) != 0) return system_error("cannot write the file");
  TRY(close_checked(std::move(file)));
  TRY(overwrite == Overwrite::replace ? pending.commit(place.name)
                                      : pending.commit_new(place.name));
  if (::fsync(place.directory.get()) != 0 && errno != EINVAL)
    return system_error("cannot write the file's directory");
  return {};
}

}  // namespace nodestage
