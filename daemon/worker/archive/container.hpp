// Which archive format a file has, by its content.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/text/archive_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Takes the first bytes of a decoded stream: 33 KiB are enough, and fewer mean that the stream ends
// there. A block of zeros is `none`: it may be an empty tar or any other file.
Container recognise_container(Bytes start);

// Whether the stream starts with 512 bytes of zeros: an empty tar, if the name says so.
bool starts_with_zero_block(Bytes start);

// Whether a zip's first member is a checkpoint's, as PyTorch writes it.
bool has_pickle_first(Bytes start);

// What follows the end of an archive: padding, another archive (as cat joins them), or other bytes.

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

// "Stage the parts as one file, with --stage-dataset='/p/t.tar.part*:t,join'", for one of them.
std::string how_to_stage_parts(const std::string& path);

// What libarchive says of an archive that it cannot read, for the job's user.

// `cause`: libarchive's text. It distinguishes a password, and a method that it lacks, from damage.
Error archive_fault(const std::string& path, Container container, const std::string& cause);

}  // namespace nodestage
