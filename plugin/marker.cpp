#include "plugin/marker.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

std::string marker_path(const std::string& runtime_dir, std::uint32_t job) {
  return runtime_dir + "/jobs/" + std::to_string(job);
}

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0) {
    // slurmd's umask is unknown.
    return ::chmod(path.c_str(), 0755) == 0 ? Status() : system_error(path);
  }
  return errno == EEXIST ? Status() : system_error(path);
}

// Opens the directory if the caller alone can create names in it.
Result<Fd> open_own_directory(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_error(path);
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{EPERM, path + ": must belong to root, and only root may write to it"};
  }
  return fd;
}

}  // namespace

bool wants_every_job(const std::string& runtime_dir) {
  return ::access((runtime_dir + "/every-job").c_str(), F_OK) == 0;
}

Marker read_marker(const std::string& runtime_dir, std::uint32_t job) {
  const auto message = read_file(AT_FDCWD, marker_path(runtime_dir, job), k_max_marker_bytes);
  if (message) {
    return message.value().empty() ? Marker{MarkerState::ask_daemon, {}}
                                   : Marker{MarkerState::failed, message.value()};
  }
  if (message.error().code == ENOENT) return {};
  return {MarkerState::failed, message.error().what};
}

Status write_marker(const std::string& runtime_dir, std::uint32_t job, std::string_view message) {
  TRY(make_directory(runtime_dir));
  TRY(make_directory(runtime_dir + "/jobs"));
  TRY(open_own_directory(runtime_dir));
  TRY_ASSIGN(const Fd jobs, open_own_directory(runtime_dir + "/jobs"));
  const std::string name = std::to_string(job);
  TRY(replace_file(jobs.get(), name, message.substr(0, k_max_marker_bytes), 0644));
  if (::fchmodat(jobs.get(), name.c_str(), 0644, 0) != 0) return system_error(name);
  return {};
}

void remove_marker(const std::string& runtime_dir, std::uint32_t job) {
  ::unlink(marker_path(runtime_dir, job).c_str());
}

std::uint64_t marker_number(const std::string& runtime_dir, std::uint32_t job) {
  struct stat status {};
  return ::stat(marker_path(runtime_dir, job).c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace nodestage
