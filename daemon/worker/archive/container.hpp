// Which archive format a file has, by its content.
#pragma once

#include <string_view>

#include "daemon/worker/decode/codec.hpp"

namespace nodestage {

enum class Container { none, tar, cpio, zip, seven_zip, iso };

std::string_view container_name(Container container);  // "tar", "cpio", "zip", "7z", …; "" for none
// The command that tests such a file: "unzip -t", …
std::string_view container_test(Container container);

// Whether it is read from its start to its end, and so can be compressed as a whole. Any other kind
// is read from a file that can seek.
bool is_stream(Container container);

// Takes the first bytes of a decoded stream: 33 KiB are enough, and fewer mean that the stream ends
// there. A block of zeros is `none`: it may be an empty tar or any other file.
Container recognise_container(Bytes start);

// Whether the stream starts with 512 bytes of zeros: an empty tar, if the name says so.
bool starts_with_zero_block(Bytes start);

}  // namespace nodestage
