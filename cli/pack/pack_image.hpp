// nodestage pack --image FILE SOURCE
#pragma once

#include "cli/pack/pack_directory.hpp"

namespace nodestage {

// Makes a squashfs image, which the key `mount` of --stage-dataset mounts, of a directory's
// contents or of a tar's. mksquashfs writes it, with a temporary name. Exit codes as of
// pack_directory().
int pack_image(const PackArguments& arguments);

}  // namespace nodestage
