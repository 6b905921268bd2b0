// Which archive format a file has, by its content.
#pragma once

#include <string_view>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

enum class Container { none, tar, cpio, zip, seven_zip };

std::string_view container_name(Container container);  // "tar", "cpio", "zip", "7z", ""

// Takes the first bytes of a decoded stream: 512 are enough, and fewer mean that the stream ends
// there. A block of zeros is `none`: it may be an empty tar or any other file.
Container recognise_container(Bytes start);

// Whether the stream starts with 512 bytes of zeros: an empty tar, if the name says so.
bool starts_with_zero_block(Bytes start);

// Files that are zip archives inside but are files to their users: .npz, .pt, .docx, .jar, …
bool is_zip_by_accident(std::string_view path);

}  // namespace nodestage
