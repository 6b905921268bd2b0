#include "plugin/marker.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "common/text/encodings.hpp"

namespace nodestage {
namespace {

std::string marker_path(const std::string& runtime_dir, std::uint32_t job) {
  return runtime_dir + "/jobs/" + std::to_string(job);
}

constexpr std::size_t k_max_pending_bytes = std::size_t{64} * 1024;

// A step that began before an upgrade writes the file by this name.
std::string pending_path(const std::string& runtime_dir, std::uint32_t job) {
  return marker_path(runtime_dir, job) + ".untold";
}

// Users find what is theirs by its name and list nothing: who reads a directory into memory of a
// file system of theirs holds its lock for as long as they like, and every prolog makes a name
// here.
constexpr mode_t k_passage = 0711;

Status make_directory(const std::string& path) {
  TRY_ASSIGN(const bool is_new, make_missing_directory(AT_FDCWD, path, k_passage));
  // slurmd's umask is unknown.
  if (is_new && ::chmod(path.c_str(), k_passage) != 0) return system_error(path);
  return {};
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
  // An earlier release let everybody list it.
  if (::fchmod(jobs.get(), k_passage) != 0) return system_error(runtime_dir + "/jobs");
  const std::string name = std::to_string(job);
  ::unlinkat(jobs.get(), (name + ".untold").c_str(), 0);  // of an earlier run
  TRY(replace_file(jobs.get(), name, message.substr(0, k_max_marker_bytes), 0644));
  if (::fchmodat(jobs.get(), name.c_str(), 0644, 0) != 0) return system_error(name);
  return {};
}

void remove_marker(const std::string& runtime_dir, std::uint32_t job) {
  ::unlink(marker_path(runtime_dir, job).c_str());
  ::unlink(pending_path(runtime_dir, job).c_str());
}

// Several slurmstepds may append at a time.
Status keep_pending(const std::string& runtime_dir, std::uint32_t job, std::string_view message) {
  const std::string path = pending_path(runtime_dir, job);
  const std::string line = hex_digits(message) + "\n";
  const auto kept = read_file(AT_FDCWD, path, k_max_pending_bytes);
  if (!kept && kept.error().code != ENOENT) return kept.error();
  if (kept && kept->find(line) != std::string::npos) return {};
  if (kept && kept->size() + line.size() > k_max_pending_bytes) return Error{EFBIG, path};
  constexpr int k_append = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW;
  TRY_ASSIGN(const Fd file, open_at(AT_FDCWD, path, k_append, 0600));
  return write_all(file.get(), std::string_view(line));
}

std::vector<std::string> pending(const std::string& runtime_dir, std::uint32_t job) {
  std::vector<std::string> messages;
  const auto kept = read_file(AT_FDCWD, pending_path(runtime_dir, job), k_max_pending_bytes);
  std::string_view left = kept ? std::string_view(*kept) : std::string_view();
  for (std::size_t end = left.find('\n'); end != std::string_view::npos; end = left.find('\n')) {
    if (auto message = bytes_of_hex(left.substr(0, end))) messages.push_back(std::move(*message));
    left.remove_prefix(end + 1);
  }
  return messages;
}

std::uint64_t marker_number(const std::string& runtime_dir, std::uint32_t job) {
  struct stat status {};
  return ::stat(marker_path(runtime_dir, job).c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace nodestage
