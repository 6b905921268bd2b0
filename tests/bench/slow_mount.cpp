// bench-slow-mount DIRECTORY READ_US CALL_US RATE LOG MOUNTPOINT...
//
// A read-only view of DIRECTORY on each MOUNTPOINT (FUSE): a file system that is far away, and the
// nodes that have it mounted. Each read is answered after READ_US microseconds and each look-up,
// open and listing after CALL_US, many at once. All reads through all mount points together get
// RATE bytes per second (0: unlimited), in the order in which they come, and nothing stays in the
// kernel's cache. With "-" as RATE there is no limit, and the kernel caches what it reads; what a
// file's last reader left there is dropped when the file is opened.
//
// Appends a line "MOUNT OFFSET BYTES" to LOG for each read, where MOUNT is the number of the mount
// point, from 0, and at its end "calls N": look-ups, opens and listings. Stays in the foreground;
// ends when all are unmounted.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
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

constexpr unsigned k_threads = 64;  // of each mount point

int root = -1;
int log_fd = -1;
std::chrono::microseconds read_delay;
std::chrono::microseconds call_delay;
bool is_cached = false;
double rate = 0;  // bytes per second
std::atomic<unsigned long> calls = 0;

struct Mount {
  std::size_t number = 0;
  fuse* files = nullptr;
  fuse_loop_config* threads = nullptr;
};

void delay_call() {
  ++calls;
  std::this_thread::sleep_for(call_delay);
}

bool log_line(const std::string& line) {
  return ::write(log_fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

// "/a" → "a", "/" → ".".
const char* below(const char* path) { return path[1] == '\0' ? "." : path + 1; }

int get_attributes(const char* path, struct stat* info, fuse_file_info*) {
  delay_call();
  return ::fstatat(root, below(path), info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

int read_link(const char* path, char* text, std::size_t size) {
  const ssize_t count = ::readlinkat(root, below(path), text, size - 1);
  if (count < 0) return -errno;
  text[count] = '\0';
  return 0;
}

int open_file(const char* path, fuse_file_info* file) {
  delay_call();
  const int fd = ::openat(root, below(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(fd);
  file->direct_io = is_cached ? 0 : 1;
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
  std::this_thread::sleep_for(read_delay);
  const ssize_t count = ::pread(static_cast<int>(file->fh), data, size, offset);
  if (count < 0) return -errno;
  wait_for_turn(static_cast<std::size_t>(count));
  const auto* mount = static_cast<const Mount*>(::fuse_get_context()->private_data);
  const bool is_logged = log_line(std::to_string(mount->number) + " " + std::to_string(offset) +
                                  " " + std::to_string(count) + "\n");
  return is_logged ? static_cast<int>(count) : -EIO;
}

int release_file(const char*, fuse_file_info* file) {
  ::close(static_cast<int>(file->fh));
  return 0;
}

int list_directory(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                   fuse_readdir_flags) {
  delay_call();
  DIR* directory = ::fdopendir(::openat(root, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory == nullptr) return -errno;
  while (const dirent* entry = ::readdir(directory)) {
    struct stat info {};
    info.st_ino = entry->d_ino;
    info.st_mode = DTTOIF(entry->d_type);
    if (fill(buffer, entry->d_name, &info, 0, static_cast<fuse_fill_dir_flags>(0)) != 0) break;
  }
  ::closedir(directory);
  return 0;
}

void* start(fuse_conn_info* connection, fuse_config*) {
  connection->max_read = 0;  // as much as the kernel asks for
  return ::fuse_get_context()->private_data;
}

const fuse_operations& operations() {
  static fuse_operations table{};
  table.getattr = get_attributes;
  table.readlink = read_link;
  table.open = open_file;
  table.read = read_file;
  table.release = release_file;
  table.readdir = list_directory;
  table.init = start;
  return table;
}

bool mount_at(const char* place, Mount& mount) {
  std::string program = "bench-slow-mount";
  std::string options = "-oro";
  if (::getuid() == 0) options += ",allow_other,default_permissions";
  std::array<char*, 3> words{program.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(2, words.data());
  mount.files = ::fuse_new(&arguments, &operations(), sizeof operations(), &mount);
  if (mount.files == nullptr || ::fuse_mount(mount.files, place) != 0) return false;
  mount.threads = ::fuse_loop_cfg_create();
  ::fuse_loop_cfg_set_max_threads(mount.threads, k_threads);
  return true;
}

// Ends when all are unmounted. fuse_main() would do as much for one, with a warning about its own
// default.
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
  return log_line("calls " + std::to_string(calls) + "\n") ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 7) {
    std::fputs("usage: bench-slow-mount DIRECTORY READ_US CALL_US RATE LOG MOUNTPOINT...\n",
               stderr);
    return 2;
  }
  root = ::open(arguments[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
  read_delay = std::chrono::microseconds(std::atoi(arguments[2]));
  call_delay = std::chrono::microseconds(std::atoi(arguments[3]));
  is_cached = std::string(arguments[4]) == "-";
  rate = is_cached ? 0 : std::atof(arguments[4]);
  log_fd = ::open(arguments[5], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (root < 0 || log_fd < 0) {
    std::perror(arguments[root < 0 ? 1 : 5]);
    return 1;
  }
  return serve(arguments + 6, count - 6);
}
