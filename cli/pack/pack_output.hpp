// Where `nodestage pack` writes: the checks before it, the name that comes last, and what is said
// of a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/pack/pack_directory.hpp"
#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {

// The code of the faults is the exit code.
int report_pack(const Error& error);

// Where the file that is made gets its name.
struct PackOutput {
  Fd directory;
  std::string name;
};

// Refuses an output that is a directory, that exists and must not be replaced, or that would lie in
// the directory that is packed. `source` is borrowed; of a file, -1.
Result<PackOutput> open_pack_output(const PackArguments& arguments, int source);

// --mtime, in seconds since 1970; nullopt: it is not given.
Result<std::optional<std::int64_t>> pack_mtime(const PackArguments& arguments);

// The temporary names of this process.
PendingNames pack_names();

// Syncs the file and gives it its name.
Status put_in_place(Fd file, const PendingName& pending, const PackOutput& place,
                    Overwrite overwrite);

// What to do about an errno.
std::string pack_advice(int code);

}  // namespace nodestage
