#include "plugin/left_writers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <string_view>
#include <thread>

#include "common/os/ask_apart.hpp"
#include "common/os/directory_stream.hpp"
#include "common/os/fd.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

// A killed process has its descriptors for a moment.
constexpr int k_looks = 20;
constexpr std::chrono::milliseconds k_pause{50};
constexpr std::chrono::seconds k_limit{5};
constexpr std::size_t k_most_status = 16 * 1024;
constexpr std::size_t k_most_maps = 16 << 20;

std::string target_of(const std::string& link) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
  return size <= 0 ? std::string() : std::string(path, static_cast<std::size_t>(size));
}

// Compares the real or the effective one: /proc shows processes that cannot be traced as root's.
bool is_of(const std::string& process, std::uint32_t uid) {
  const auto status = read_file(AT_FDCWD, process + "/status", k_most_status);
  if (!status) return false;
  constexpr std::string_view k_ids = "\nUid:\t";
  const std::size_t at = status->find(k_ids);
  if (at == std::string::npos) return false;
  std::string_view ids = std::string_view(*status).substr(at + k_ids.size());
  const std::string wanted = std::to_string(uid);
  return take_field(ids, '\t') == wanted || take_field(ids, '\t') == wanted;
}

// Root's program with that name, which does nothing without the daemon's order; or the daemon, of
// which a worker is a copy before it runs that. A user's program of that name can be on a file
// system that does not answer: it is not asked.
bool is_worker(const std::string& process) {
  const std::string program = target_of(process + "/exe");
  if (!program.ends_with("/nodestage-worker") && !program.ends_with("/nodestaged")) return false;
  struct statx info {};
  return ::statx(AT_FDCWD, (process + "/exe").c_str(), AT_STATX_DONT_SYNC, STATX_UID, &info) == 0 &&
         info.stx_uid == 0;
}

// Also what is open for reading alone: its owner can open that again.
bool has_open(const std::string& process, const std::string& below) {
  for (const char* const link : {"/cwd", "/root", "/exe"}) {
    if ((target_of(process + link) + "/").starts_with(below)) return true;
  }
  auto descriptors = DirectoryStream::at(AT_FDCWD, process + "/fd");
  while (const auto number = descriptors.next()) {
    const std::string link = (process + "/fd/").append(*number);
    if ((target_of(link) + "/").starts_with(below)) return true;
  }
  const auto maps = read_file(AT_FDCWD, process + "/maps", k_most_maps);
  return maps && maps->find(" " + below) != std::string::npos;
}

bool is_left_writer(const std::string& process, const std::string& below, std::uint32_t uid) {
  return is_of(process, uid) && !is_worker(process) && has_open(process, below);
}

// The descriptor keeps the number from meaning another process by then.
bool kill_if_writer(int pid, const std::string& below, std::uint32_t uid) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return process && is_left_writer("/proc/" + std::to_string(pid), below, uid) &&
         ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
}

std::vector<int> kill_once(const std::string& below, std::uint32_t uid) {
  std::vector<int> killed;
  auto processes = DirectoryStream::at(AT_FDCWD, "/proc");
  while (const auto name = processes.next()) {
    std::string_view text = *name;
    const auto pid = take_number<int>(text);
    if (pid && text.empty() && kill_if_writer(*pid, below, uid)) killed.push_back(*pid);
  }
  return killed;
}

}  // namespace

namespace {

std::vector<int> kill_all(const std::string& directory, std::uint32_t uid) {
  std::vector<int> killed;
  const auto opened = open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY);
  if (uid == 0 || !opened) return killed;
  const std::string below = target_of("/proc/self/fd/" + std::to_string(opened->get())) + "/";
  for (int look = 0; look < k_looks; ++look) {
    const std::vector<int> found = kill_once(below, uid);
    if (found.empty()) break;
    for (const int pid : found) {
      if (std::find(killed.begin(), killed.end(), pid) == killed.end()) killed.push_back(pid);
    }
    std::this_thread::sleep_for(k_pause);
  }
  return killed;
}

}  // namespace

// Asks apart, since a process can make a reader of its maps wait for its memory.
std::vector<int> kill_left_writers(const std::string& directory, std::uint32_t uid) {
  const auto answer = ask_apart(k_limit, [&] {
    std::string pids;
    for (const int pid : kill_all(directory, uid)) pids += std::to_string(pid) + " ";
    return pids;
  });
  std::vector<int> killed;
  std::string_view rest = answer ? std::string_view(*answer) : std::string_view();
  while (const auto pid = take_number<int>(rest)) {
    killed.push_back(*pid);
    rest.remove_prefix(1);
  }
  return killed;
}

}  // namespace nodestage
