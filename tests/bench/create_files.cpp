// bench-floor MANIFEST DIRECTORY THREADS
//
// The floor below which no extraction can be: creates the directories and files that MANIFEST lists
// from memory, and does nothing else: mkdirat, openat, pwrite, futimens, close. The small files of
// a directory are one thread's, as creation in one directory is serial in the kernel, and so is a
// large file: two writers of one would wait for each other.
//
// MANIFEST, a line each, every directory before what is in it:
//   d 0 MTIME_SECONDS PATH
//   f SIZE MTIME_SECONDS PATH
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t k_large = std::uint64_t{8} * 1024 * 1024;
constexpr std::uint64_t k_write = std::uint64_t{32} * 1024;  // larger ones were slower

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench-floor: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

struct File {
  std::string name;  // in its directory
  std::uint64_t size;
  std::time_t mtime;
};

struct Directory {
  std::string path;
  std::time_t mtime;
  std::vector<File> files;
};

// A large file, or (null) all small files of a directory.
struct Task {
  const Directory* directory;
  const File* large;
};

std::vector<Directory> read_manifest(const char* path) {
  std::vector<Directory> directories{{"", 0, {}}};
  std::map<std::string, std::size_t> places{{"", 0}};
  std::ifstream manifest(path);
  std::string kind;
  std::uint64_t size = 0;
  std::time_t mtime = 0;
  std::string name;
  while (manifest >> kind >> size >> mtime && std::getline(manifest.ignore(), name)) {
    if (kind == "d") {
      places[name] = directories.size();
      directories.push_back({name, mtime, {}});
      continue;
    }
    const auto slash = name.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : name.substr(0, slash);
    directories[places.at(parent)].files.push_back({name.substr(slash + 1), size, mtime});
  }
  return directories;
}

std::vector<char> make_data() {
  std::vector<char> data(k_large);
  std::minstd_rand random(1);
  std::generate(data.begin(), data.end(), [&] { return static_cast<char>(random() >> 8); });
  return data;
}

int open_below(int root, const std::string& path) {
  const int fd = ::openat(root, path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY);
  if (fd < 0) give_up(path);
  return fd;
}

// `size` bytes, the data over and over.
void write_all(int fd, const std::vector<char>& data, std::uint64_t size) {
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t from = at % data.size();
    const std::uint64_t most = std::min({size - at, data.size() - from, k_write});
    const ssize_t count = ::pwrite(fd, data.data() + from, most, static_cast<off_t>(at));
    if (count < 0) give_up("pwrite");
    at += static_cast<std::uint64_t>(count);
  }
}

void set_time(int fd, std::time_t mtime) {
  const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, timespec{mtime, 0}};
  if (::futimens(fd, times.data()) != 0) give_up("futimens");
}

class Creation {
 public:
  Creation(int root, const std::vector<Directory>& directories)
      : root_(root), directories_(directories), data_(make_data()) {
    for (const auto& directory : directories_) add_tasks(directory);
  }

  void run(unsigned threads) {
    for (const auto& directory : directories_) {
      if (!directory.path.empty() && ::mkdirat(root_, directory.path.c_str(), 0755) != 0) {
        give_up(directory.path);
      }
    }
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back([this] { work(); });
    work();
    for (auto& thread : others) thread.join();
    set_directory_times();
  }

 private:
  void add_tasks(const Directory& directory) {
    tasks_.push_back({&directory, nullptr});
    for (const auto& file : directory.files) {
      if (file.size > k_large) tasks_.push_back({&directory, &file});
    }
  }

  void work() {
    for (std::size_t i = next_++; i < tasks_.size(); i = next_++) {
      const int parent = open_below(root_, tasks_[i].directory->path);
      if (tasks_[i].large != nullptr) {
        write_file(parent, *tasks_[i].large);
      } else {
        for (const auto& file : tasks_[i].directory->files) {
          if (file.size <= k_large) write_file(parent, file);
        }
      }
      ::close(parent);
    }
  }

  void write_file(int parent, const File& file) const {
    const int fd = ::openat(parent, file.name.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0) give_up(file.name);
    write_all(fd, data_, file.size);
    set_time(fd, file.mtime);
    ::close(fd);
  }

  void set_directory_times() const {
    for (auto at = directories_.rbegin(); at != directories_.rend(); ++at) {
      if (at->path.empty()) continue;
      const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, timespec{at->mtime, 0}};
      if (::utimensat(root_, at->path.c_str(), times.data(), 0) != 0) give_up(at->path);
    }
  }

  const int root_;
  const std::vector<Directory>& directories_;
  const std::vector<char> data_;
  std::vector<Task> tasks_;
  std::atomic<std::size_t> next_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fputs("usage: bench-floor MANIFEST DIRECTORY THREADS\n", stderr);
    return 2;
  }
  const auto directories = read_manifest(arguments[1]);
  const int root = ::open(arguments[2], O_PATH | O_DIRECTORY);
  if (root < 0) give_up(arguments[2]);
  Creation(root, directories).run(static_cast<unsigned>(std::atoi(arguments[3])));
  return 0;
}
