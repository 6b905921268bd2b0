#include "daemon/worker/image/image_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <string>
#include <vector>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/image/fuse_session.hpp"

namespace nodestage {
namespace {

// Of all images of a job: they share what a worker may take (worker.pids).
constexpr std::uint32_t k_max_server_threads = 64;

int fuse_fd_of(std::uint32_t index) { return k_worker_fuse_fd + static_cast<int>(index); }

// New names in the job directory. A user has a limited number of watches: without one, the caller
// looks again soon.
class NewNames {
 public:
  NewNames() : watch_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    const std::string place = "/proc/self/fd/" + std::to_string(k_worker_directory_fd);
    is_watched_ = ::inotify_add_watch(watch_.get(), place.c_str(), IN_CREATE | IN_MOVED_TO) >= 0;
  }
  void await() const {
    constexpr int k_watched_ms = 10'000;
    constexpr int k_unwatched_ms = 100;
    pollfd entry{watch_.get(), POLLIN, 0};
    static_cast<void>(::poll(&entry, 1, is_watched_ ? k_watched_ms : k_unwatched_ms));
    std::array<char, 4096> events;
    while (::read(watch_.get(), events.data(), events.size()) > 0) continue;
  }

 private:
  Fd watch_;
  bool is_watched_ = false;
};

// Waits until the worker task `stage` has placed the image.
Result<Fd> open_image(std::uint32_t index) {
  const NewNames names;
  auto image = open_at(k_worker_directory_fd, image_link(index), k_open_source);
  while (!image && image.error().code == ENOENT) {
    names.await();
    image = open_at(k_worker_directory_fd, image_link(index), k_open_source);
  }
  if (!image) return image;
  struct stat info {};
  if (::fstat(image->get(), &info) != 0) return system_error("fstat");
  if (!S_ISREG(info.st_mode))
    return Error{EINVAL, path_of(image->get()) + ": it is not a regular file"};
  static_cast<void>(::posix_fadvise(image->get(), 0, 0, POSIX_FADV_RANDOM));
  return image;
}

Status serve_index(const ServeOrder& order, std::uint32_t index,
                   const std::function<Status()>& confine) {
  TRY_ASSIGN(const Fd file, open_image(index));
  const std::string name = path_of(file.get());
  TRY(confine());
  auto image = SquashImage::open(file.get());
  if (!image) return with_prefix(std::move(image.error()), name + ": ");
  const std::uint32_t threads =
      std::clamp<std::uint32_t>(order.threads, 1, k_max_server_threads / order.images);
  return serve_image(fuse_fd_of(index), *image, name, {order.uid, order.gid}, threads);
}

int fail_index(const Error& error) {
  log_line("an image that is mounted cannot be served: " + error.text());
  static_cast<void>(write_status_phase(k_worker_status_fd, WorkerPhase::failed, 0, error.text()));
  return 1;
}

// What is open in this process alone ends with it. The boundary for exceptions of libraries.
int serve_apart(const ServeOrder& order, std::uint32_t index, pid_t parent,
                const std::function<Status()>& confine) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) return 1;
  close_all_but({0, 1, 2, k_worker_status_fd, k_worker_directory_fd, fuse_fd_of(index)});
  try {
    const Status served = serve_index(order, index, confine);
    return served ? 0 : fail_index(served.error());
  } catch (const std::exception& error) {
    return fail_index(thrown(error));
  }
}

}  // namespace

int run_serve(const ServeOrder& order, const std::function<Status()>& confine) {
  static_cast<void>(write_status_phase(k_worker_status_fd, WorkerPhase::working));
  std::vector<ChildProcess> servers;
  const pid_t parent = ::getpid();
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(order.images, k_max_images); ++i) {
    auto server = ChildProcess::start(
        Orphan::killed, [&]() noexcept { return serve_apart(order, i, parent, confine); });
    if (!server) return fail_index(server.error());
    servers.push_back(std::move(*server));
  }
  for (std::uint32_t i = 0; i < servers.size(); ++i) ::close(fuse_fd_of(i));
  int worst = 0;
  for (std::uint32_t i = 0; i < servers.size(); ++i) {
    const int code = exit_code_of(servers[i].wait().value_or(1));
    if (code > 1)
      fail_index({0, "the process that serves image " + std::to_string(i + 1) +
                         " has ended with exit code " + std::to_string(code)});
    if (code != 0) worst = 1;
  }
  if (worst == 0) static_cast<void>(write_status_phase(k_worker_status_fd, WorkerPhase::done));
  return worst;
}

}  // namespace nodestage
