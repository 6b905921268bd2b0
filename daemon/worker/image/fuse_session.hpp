// Answers the kernel's requests (FUSE) for one image that is mounted.
//
// It speaks the kernel's protocol (linux/fuse.h) by itself: what it needs of it is small, and it
// makes no call but read and write on the descriptor.
//
// What is served cannot change, so the kernel keeps all that it has asked once: names, also those
// that do not exist, attributes, lists, links, and data. It opens files and directories without a
// request, if it can. Extended attributes and locks are refused once, and never asked for again.
//
// Owners in an image are those of the machine that made it, often root alone. The mount is for one
// user, who may read all of the image: everything belongs to that user, who may read each file and
// each directory. Nobody can write, and set-id bits are dropped.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/result.hpp"
#include "daemon/worker/image/squash_image.hpp"

namespace nodestage {

struct ImageOwner {
  uid_t uid = 0;
  gid_t gid = 0;
};

// Serves with that many threads until the file system is unmounted. Answers a fault of the image
// with EIO, and logs the first one with the image's `name`. `fuse_fd`: borrowed, of a FUSE file
// system that is mounted and was not served before. A fault: that descriptor is of no use.
Status serve_image(int fuse_fd, const SquashImage& image, const std::string& name, ImageOwner owner,
                   unsigned threads);

}  // namespace nodestage
