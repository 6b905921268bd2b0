// Knows a squashfs image by its superblock, and what else a user may take for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// As much of a file's start as check_image() looks at.
inline constexpr std::size_t k_image_start_bytes = 32774;

// Whether a file that starts so is a squashfs image, of whatever version.
bool is_squashfs(std::string_view start);

// Checks whether a file of `size` bytes, which starts so, can be mounted as an image: squashfs 4.0,
// whole, and with a compression that is known. `file` is its name, printable. The fault names the
// file, the cause, and what to do.
Status check_image(const std::string& file, std::string_view start, std::uint64_t size);

}  // namespace nodestage
