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

#include <chrono>
#include <cstdint>
#include <functional>

#include "common/result.hpp"
#include "daemon/worker/image/squash_image.hpp"

namespace nodestage {

struct ImageOwner {
  uid_t uid = 0;
  gid_t gid = 0;
};

// The first fault of an image, at once, from any thread.
using OnImageFault = std::function<void(const Error&)>;

// A FUSE file system that is mounted and was not served before. One thread.
class ImageSession {
 public:
  // `fuse_fd` is borrowed.
  ImageSession(int fuse_fd, ImageOwner owner) : fd_(fuse_fd), owner_(owner) {}

  // Answers while there is no image: the file system is empty, its root has one link (an image's
  // has more), and all else fails with EAGAIN. So nobody who looks at all mounts waits, as df does.
  // Returns when `wake_fd` (-1: none) can be read, or after so long; false: it is unmounted.
  bool answer_without(int wake_fd, std::chrono::milliseconds time);

  // Serves with that many threads, or as many as there can be, until it is unmounted. Answers a
  // fault of the image with EIO, and returns the first one in the end. Another fault: the
  // descriptor is of no use.
  Status serve(const SquashImage& image, unsigned threads, const OnImageFault& on_fault);

 private:
  const int fd_;
  const ImageOwner owner_;
  std::uint32_t kernel_flags_ = 0;
};

}  // namespace nodestage
