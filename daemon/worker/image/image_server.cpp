#include "daemon/worker/image/image_server.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
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
// Of each image, however few CPUs the job has: while one waits for the disk, others can go on.
constexpr std::uint32_t k_least_server_threads = 4;
static_assert(k_least_server_threads * k_max_images <= k_max_server_threads);

int fuse_fd_of(std::uint32_t index) { return k_worker_fuse_fd + static_cast<int>(index); }

// New names in the job directory. A user has a limited number of watches: without one, the caller
// looks again soon.
class NewNames {
 public:
  NewNames() : watch_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    const std::string place = "/proc/self/fd/" + std::to_string(k_worker_directory_fd);
    is_watched_ = ::inotify_add_watch(watch_.get(), place.c_str(), IN_CREATE | IN_MOVED_TO) >= 0;
  }
  [[nodiscard]] int fd() const { return is_watched_ ? watch_.get() : -1; }
  [[nodiscard]] std::chrono::milliseconds patience() const {
    return is_watched_ ? std::chrono::seconds(10) : std::chrono::milliseconds(100);
  }
  void forget() const {
    std::array<char, 4096> events;
    while (::read(watch_.get(), events.data(), events.size()) > 0) continue;
  }

 private:
  Fd watch_;
  bool is_watched_ = false;
};

// Waits until the worker task `stage` has placed the image. Empty: there is nothing to serve, since
// it is unmounted, or given up by a link to /dev/null.
Result<Fd> open_image(std::uint32_t index, ImageSession& session) {
  const NewNames names;
  auto image = open_at(k_worker_directory_fd, image_link(index), k_open_source);
  while (!image && image.error().code == ENOENT) {
    if (!session.answer_without(names.fd(), names.patience())) return Fd();
    names.forget();
    image = open_at(k_worker_directory_fd, image_link(index), k_open_source);
  }
  if (!image) return image;
  struct stat info {};
  if (::fstat(image->get(), &info) != 0) return system_error("fstat");
  if (S_ISCHR(info.st_mode)) return Fd();
  if (!S_ISREG(info.st_mode))
    return Error{EINVAL, path_of(image->get()) + ": it is not a regular file"};
  static_cast<void>(::posix_fadvise(image->get(), 0, 0, POSIX_FADV_RANDOM));
  return image;
}

// The daemon reads the cause when the job has ended, and `nodestage run` at once.
void report_index(const Error& error) {
  static_cast<void>(write_status_phase(k_worker_status_fd, WorkerPhase::failed, 0, error.text()));
}

Status serve_index(const ServeOrder& order, std::uint32_t index,
                   const std::function<Status()>& confine) {
  ImageSession session(fuse_fd_of(index), {order.uid, order.gid});
  TRY_ASSIGN(const Fd file, open_image(index, session));
  if (!file) return {};
  const std::string name = path_of(file.get());
  TRY(confine());
  auto image = SquashImage::open(file.get());
  if (!image) return with_prefix(std::move(image.error()), name + ": ");
  const auto named = [&name](const Error& error) { return with_prefix(error, name + ": "); };
  const std::uint32_t threads = std::clamp<std::uint32_t>(order.threads, k_least_server_threads,
                                                          k_max_server_threads / order.images);
  const Status served =
      session.serve(*image, threads, [&named](const Error& fault) { report_index(named(fault)); });
  return served ? Status() : named(served.error());
}

int fail_index(const Error& error) {
  log_line("an image that is mounted cannot be served: " + error.text());
  report_index(error);
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

std::string how_ended(int code) {
  const int signal = code - 128;
  if (signal <= 0) return "has ended with exit code " + std::to_string(code);
  return "was killed by signal " + std::to_string(signal) +
         (signal == SIGKILL ? ", by a program or for lack of memory" : "");
}

// Reports each that has failed at once, while the others serve on. Returns the exit code.
int wait_for_all(std::vector<ChildProcess>& servers) {
  int worst = 0;
  siginfo_t ended{};
  while (::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) == 0 || errno == EINTR) {
    for (std::size_t i = 0; i < servers.size(); ++i) {
      const auto status = servers[i] ? servers[i].reap() : std::nullopt;
      const int code = status ? exit_code_of(*status) : 0;
      if (code > 1)
        fail_index(
            {0, "the process that serves image " + std::to_string(i + 1) + " " + how_ended(code)});
      if (code != 0) worst = 1;
    }
  }
  return worst;
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
  const int worst = wait_for_all(servers);
  if (worst == 0) static_cast<void>(write_status_phase(k_worker_status_fd, WorkerPhase::done));
  return worst;
}

}  // namespace nodestage
