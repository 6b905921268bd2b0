// ImageMounts: the images of `nodestage run` that are mounted (ImageRules), without root:
// fusermount3, which every user may call, mounts what the caller's own worker serves.
//
// The mount points lie in the run's record (PushDirectory), so the next run's sweep finds those of
// a run that was killed. The worker dies with the run, and then nobody answers for such a mount.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/process/worker_child.hpp"
#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

class ImageMounts {
 public:
  // Mounts that many empty file systems below `record`. The fault says why it cannot.
  static Result<ImageMounts> make(const std::string& record, std::size_t count);
  ImageMounts(ImageMounts&&) = default;
  ~ImageMounts() { end(); }

  // Their paths, for ImageRules::mounts.
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }

  // Starts the worker that serves them as soon as the images are in the job directory. Hands over
  // the descriptors: no process but the worker may keep them, or readers would wait for a worker
  // that has died.
  // `call`: with a ServeOrder, and without descriptors of mounts.
  Status serve(WorkerCall call);

  // Returns why one of them can be read no longer, once; nothing for those that were given up.
  // Never blocks.
  std::optional<Error> why_ended();

  // Ends the worker and the mounts.
  void end();

 private:
  ImageMounts() = default;

  std::vector<std::string> paths_;
  std::vector<Fd> descriptors_;
  std::optional<WorkerChild> server_;
  bool was_said_ = false;
};

// Detaches what is mounted below the record of a run, also if it does not answer.
void detach_images(const std::string& record);

}  // namespace nodestage
