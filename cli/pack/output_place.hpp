// Where a file that `nodestage pack` makes gets its name.
#pragma once

#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {

enum class Overwrite { refuse, replace };

struct OutputPlace {
  Fd directory;
  std::string name;
};

Result<OutputPlace> open_place(const std::string& output);

// The temporary names of this process.
PendingNames pack_names();

// Syncs the file and gives it its name.
Status put_in_place(Fd file, const PendingName& pending, const OutputPlace& place,
                    Overwrite overwrite);

}  // namespace nodestage
