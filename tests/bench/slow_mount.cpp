// bench-slow-mount DIRECTORY MOUNTPOINT READ_US CALL_US [LOG]
//
// A read-only view of DIRECTORY on MOUNTPOINT (FUSE) whose server answers each read after READ_US
// microseconds and each look-up, open and listing after CALL_US, many at once: a file system that
// is far away but not slow. Stays in the foreground; ends when it is unmounted. What a file's last
// reader left in the page cache is dropped when it is opened. At its end it appends a line "CALLS
// READS BYTES" to LOG: look-ups, opens and listings, reads, and the bytes that were read.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

constexpr unsigned k_threads = 64;

int root = -1;
std::chrono::microseconds read_delay;
std::chrono::microseconds call_delay;
std::atomic<unsigned long> calls = 0;
std::atomic<unsigned long> reads = 0;
std::atomic<unsigned long> bytes_read = 0;

void delay_call() {
  ++calls;
  std::this_thread::sleep_for(call_delay);
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
  return 0;
}

int read_file(const char*, char* data, std::size_t size, off_t offset, fuse_file_info* file) {
  ++reads;
  std::this_thread::sleep_for(read_delay);
  const ssize_t count = ::pread(static_cast<int>(file->fh), data, size, offset);
  if (count > 0) bytes_read += static_cast<unsigned long>(count);
  return count < 0 ? -errno : static_cast<int>(count);
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
  return nullptr;
}

fuse_operations operations() {
  fuse_operations table{};
  table.getattr = get_attributes;
  table.readlink = read_link;
  table.open = open_file;
  table.read = read_file;
  table.release = release_file;
  table.readdir = list_directory;
  table.init = start;
  return table;
}

// Ends when it is unmounted. fuse_main() would do as much, with a warning about its own default.
int serve(const char* mount_point) {
  std::string program = "bench-slow-mount";
  std::string options = "-oro";
  if (::getuid() == 0) options += ",allow_other,default_permissions";
  std::array<char*, 3> words{program.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(2, words.data());
  const fuse_operations table = operations();
  fuse* const files = ::fuse_new(&arguments, &table, sizeof table, nullptr);
  if (files == nullptr || ::fuse_mount(files, mount_point) != 0) return 1;
  fuse_loop_config* const threads = ::fuse_loop_cfg_create();
  ::fuse_loop_cfg_set_max_threads(threads, k_threads);
  const int ended = ::fuse_loop_mt(files, threads);
  ::fuse_loop_cfg_destroy(threads);
  ::fuse_unmount(files);
  ::fuse_destroy(files);
  return ended == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5 && count != 6) {
    std::fputs("usage: bench-slow-mount DIRECTORY MOUNTPOINT READ_US CALL_US [LOG]\n", stderr);
    return 2;
  }
  root = ::open(arguments[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) {
    std::perror(arguments[1]);
    return 1;
  }
  read_delay = std::chrono::microseconds(std::atoi(arguments[3]));
  call_delay = std::chrono::microseconds(std::atoi(arguments[4]));
  std::FILE* const log = count == 6 ? std::fopen(arguments[5], "a") : nullptr;
  const int code = serve(arguments[2]);
  if (log == nullptr) return code;
  std::fprintf(log, "%lu %lu %lu\n", calls.load(), reads.load(), bytes_read.load());
  return std::fclose(log) == 0 ? code : 1;
}
