// Images that are mounted as a job's, and served by run_serve() in a child. Needs root.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/image/image_server.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace nodestage {

inline bool can_mount_images() {
  if (::geteuid() == 0 && ::access("/dev/fuse", R_OK | W_OK) == 0) return true;
  MESSAGE("skipped: needs root and /dev/fuse to mount");
  return false;
}

class MountedImages {
 public:
  explicit MountedImages(
      std::uint32_t count, std::function<Status()> confine = [] { return Status(); })
      : count_(count),
        status_(must(open_at(AT_FDCWD, scratch_ / "status", O_RDWR | O_CREAT, 0600))) {
    std::filesystem::create_directory(scratch_ / "job");
    std::vector<Fd> devices;
    for (std::uint32_t i = 0; i < count; ++i) devices.push_back(mount_at(at(i)));
    server_ = ::fork();
    if (server_ == 0) ::_exit(serve(devices, confine));
  }
  MountedImages(const MountedImages&) = delete;
  MountedImages& operator=(const MountedImages&) = delete;
  ~MountedImages() {
    if (server_ > 0) static_cast<void>(end());
  }

  // As the worker task `stage` does it, once the image is whole. Returns when it is served, or will
  // never be.
  void place(std::uint32_t index, const std::string& image) const {
    std::filesystem::create_symlink(image, (scratch_ / "job/") + image_link(index));
    struct stat top {};
    while (::stat(at(index).c_str(), &top) == 0 && top.st_nlink < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  [[nodiscard]] std::string at(std::uint32_t index) const {
    return scratch_ / ("mount-" + std::to_string(index));
  }
  [[nodiscard]] pid_t server() const { return server_; }

  // Unmounts, and returns the exit code of the server; 128 and more: a signal.
  int end() {
    for (std::uint32_t i = 0; i < count_; ++i) ::umount2(at(i).c_str(), MNT_DETACH);
    int status = 0;
    ::waitpid(server_, &status, 0);
    server_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] WorkerStatus status() const { return must(read_worker_status(status_.get())); }

 private:
  static Fd mount_at(const std::string& path) {
    std::filesystem::create_directory(path);
    Fd device = must(open_at(AT_FDCWD, "/dev/fuse", O_RDWR));
    const std::string options =
        "fd=" + std::to_string(device.get()) + ",rootmode=40000,user_id=0,group_id=0";
    REQUIRE(::mount("image", path.c_str(), "fuse.nodestage", MS_RDONLY | MS_NOSUID | MS_NODEV,
                    options.c_str()) == 0);
    return device;
  }

  // In the child, with the descriptors of a worker.
  int serve(const std::vector<Fd>& devices, const std::function<Status()>& confine) {
    const int job = ::open((scratch_ / "job").c_str(), O_RDONLY | O_DIRECTORY);
    std::vector<std::pair<int, int>> moves = {{status_.get(), k_worker_status_fd},
                                              {job, k_worker_directory_fd}};
    for (std::uint32_t i = 0; i < count_; ++i)
      moves.emplace_back(devices[i].get(), k_worker_fuse_fd + static_cast<int>(i));
    for (auto& [from, to] : moves) from = ::fcntl(from, F_DUPFD_CLOEXEC, 100);
    for (const auto& [from, to] : moves) ::dup2(from, to);
    std::vector<int> kept = {0, 1, 2};
    for (const auto& [from, to] : moves) kept.push_back(to);
    close_all_but(kept);
    ServeOrder order;
    order.threads = 2;
    order.images = count_;
    return run_serve(order, confine);
  }

  const Scratch scratch_ = {};
  const std::uint32_t count_;
  const Fd status_;
  pid_t server_ = -1;
};

// Runs a command of the shell; returns whether it succeeds.
inline bool succeeds(const std::string& command) { return std::system(command.c_str()) == 0; }

}  // namespace nodestage
