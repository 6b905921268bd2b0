// bench-metered-mount DIRECTORY RATE LOG MOUNTPOINT...
//
// A read-only view of the files in DIRECTORY on each MOUNTPOINT (FUSE): a shared file system, and
// the nodes that have it mounted. All reads through all mount points together get RATE bytes per
// second (0: unlimited), in the order in which they come. Nothing stays in the kernel's cache.
// Appends a line "MOUNT OFFSET BYTES" to LOG for each read, where MOUNT is the number of the mount
// point, from 0. Stays in the foreground; ends when all are unmounted.
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned k_threads = 16;  // of each mount point

int root = -1;
int log_fd = -1;
double rate = 0;  // bytes per second

struct Mount {
  std::size_t number = 0;
  fuse* files = nullptr;
  fuse_loop_config* threads = nullptr;
};

// "/a" → "a", "/" → ".".
const char* below(const char* path) { return path[1] == '\0' ? "." : path + 1; }

int get_attributes(const char* path, struct stat* info, fuse_file_info*) {
  return ::fstatat(root, below(path), info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

int open_file(const char* path, fuse_file_info* file) {
  const int fd = ::openat(root, below(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(fd);
  file->direct_io = 1;
  return 0;
}

// Waits until what was asked for earlier, and these bytes, have passed.
void wait_for_turn(std::size_t bytes) {
  static std::mutex mutex;
  static Clock::time_point free_from;
  if (rate == 0) return;
  const auto cost = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / rate));
  Clock::time_point until;
  {
    const std::lock_guard lock(mutex);
    free_from = std::max(free_from, Clock::now()) + cost;
    until = free_from;
  }
  std::this_thread::sleep_until(until);
}

int read_file(const char*, char* data, std::size_t size, off_t offset, fuse_file_info* file) {
  const ssize_t count = ::pread(static_cast<int>(file->fh), data, size, offset);
  if (count < 0) return -errno;
  wait_for_turn(static_cast<std::size_t>(count));
  const auto* mount = static_cast<const Mount*>(::fuse_get_context()->private_data);
  const std::string line = std::to_string(mount->number) + " " + std::to_string(offset) + " " +
                           std::to_string(count) + "\n";
  if (::write(log_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return -EIO;
  return static_cast<int>(count);
}

int release_file(const char*, fuse_file_info* file) {
  ::close(static_cast<int>(file->fh));
  return 0;
}

void* start(fuse_conn_info* connection, fuse_config*) {
  connection->max_read = 0;  // as much as the kernel asks for
  return ::fuse_get_context()->private_data;
}

const fuse_operations& operations() {
  static fuse_operations table{};
  table.getattr = get_attributes;
  table.open = open_file;
  table.read = read_file;
  table.release = release_file;
  table.init = start;
  return table;
}

bool mount_at(const char* place, Mount& mount) {
  std::string program = "bench-metered-mount";
  std::string options = "-oro,allow_other,default_permissions";
  std::array<char*, 3> words{program.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(2, words.data());
  mount.files = ::fuse_new(&arguments, &operations(), sizeof operations(), &mount);
  if (mount.files == nullptr || ::fuse_mount(mount.files, place) != 0) return false;
  mount.threads = ::fuse_loop_cfg_create();
  ::fuse_loop_cfg_set_max_threads(mount.threads, k_threads);
  return true;
}

int serve(char** places, int count) {
  std::list<Mount> mounts;
  for (int i = 0; i < count; ++i) {
    Mount& mount = mounts.emplace_back();
    mount.number = static_cast<std::size_t>(i);
    if (!mount_at(places[i], mount)) return 1;
  }
  std::list<std::thread> loops;
  for (Mount& mount : mounts)
    loops.emplace_back([&mount] { ::fuse_loop_mt(mount.files, mount.threads); });
  for (std::thread& loop : loops) loop.join();
  for (const Mount& mount : mounts) {
    ::fuse_loop_cfg_destroy(mount.threads);
    ::fuse_unmount(mount.files);
    ::fuse_destroy(mount.files);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fputs("usage: bench-metered-mount DIRECTORY RATE LOG MOUNTPOINT...\n", stderr);
    return 2;
  }
  root = ::open(arguments[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
  rate = std::atof(arguments[2]);
  log_fd = ::open(arguments[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (root < 0 || log_fd < 0) {
    std::perror(arguments[root < 0 ? 1 : 3]);
    return 1;
  }
  return serve(arguments + 4, count - 4);
}
