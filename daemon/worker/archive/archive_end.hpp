// What follows the end of an archive: padding, another archive (as cat joins them), or other bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/worker/basis/bytes.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

inline constexpr const char* k_junk_note = "bytes after the end of the archive were ignored";

// The note for several archives of one kind in one file.
std::string joined_note(std::uint64_t archives);

// "zip", "gz", …, if another archive or compressed file begins with these bytes; else "".
std::string kind_of_start(Bytes bytes);

// The fault for an archive of that kind behind the first one. `offset`: in the file, if it is
// known.
Error other_archive(const std::string& path, const std::string& kind,
                    std::optional<std::uint64_t> offset);

// Looks at what is in the file from `offset` on: other_archive(), or whether anything but zeros is.
Result<bool> has_junk(const Source& source, std::uint64_t offset);

}  // namespace nodestage
