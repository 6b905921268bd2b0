#include "daemon/worker/out/job_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "common/os/file.hpp"
#include "common/text/name_pattern.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/out/notice.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {
namespace {

// Opening neither waits for a FIFO nor makes a terminal this process's.
constexpr int k_append = O_RDWR | O_APPEND | O_NONBLOCK | O_NOCTTY;

// For sbatch, a backslash makes the next character literal and switches all patterns off.
std::string without_escapes(const std::string& path) {
  std::string name;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '\\' && ++i == path.size()) break;
    name += path[i];
  }
  return name;
}

// What only sbatch knows, for a batch script: %t (task), %s (step), and %J (job and step).
std::string in_our_patterns(const std::string& path) {
  std::string name;
  for (std::size_t i = 0; i < path.size();) {
    const std::string part = path.substr(i, path[i] == '%' ? 2 : 1);
    i += part.size();
    name += part == "%t" ? "0" : part == "%s" ? "batch" : part == "%J" ? "%j" : part;
  }
  return name;
}

bool is_array_task(const AppendOrder& order) { return order.array_job != k_no_number; }

// The batch script is the first task of the job's first node.
Result<std::string> expand_as_sbatch(const AppendOrder& order) {
  if (order.stdout_path.empty()) {  // sbatch's default
    if (!order.array_known) return Error{ENODATA, "whether it is an array's task is not known"};
    return expand_pattern(is_array_task(order) ? "slurm-%A_%a.out" : "slurm-%j.out",
                          pattern_facts(order));
  }
  if (order.stdout_path.find('\\') != std::string::npos) return without_escapes(order.stdout_path);
  const std::string path = in_our_patterns(order.stdout_path);
  if (names_any(path, "r")) return Error{EINVAL, "%r is no pattern of sbatch"};
  const bool is_first = order.node_index == 0 || order.node_count == 1;
  if (!is_first && names_any(path, "N")) return Error{ENODATA, "%N is the name of another node"};
  PatternFacts facts = pattern_facts(order);
  facts.node_index = 0;
  return expand_pattern(path, facts);
}

Status check_own(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(path);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, path + " is not a regular file"};
  if (info.st_uid != ::geteuid()) return Error{EPERM, path + " is another user's"};
  if (info.st_nlink != 1) return Error{EMLINK, path + " has another name, too"};
  return {};
}

Result<Fd> open_output(const std::string& path) {
  if (path.empty()) return Error{ENOENT, "the job has no output file that is known here"};
  // Nothing happens to a device by this, and the second name leads to what was looked at.
  TRY_ASSIGN(const Fd found, open_at(AT_FDCWD, path, O_PATH | O_NOFOLLOW));
  TRY(check_own(found.get(), path));
  return open_at(AT_FDCWD, "/proc/self/fd/" + std::to_string(found.get()), k_append);
}

Result<Fd> open_lines_file(const AppendOrder& order) {
  const std::string directory = notice_directory(order.stdout_path, order.work_dir);
  TRY_ASSIGN(const Fd into, open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY));
  const std::string name = lines_file_name(order);
  TRY_ASSIGN(Fd file, open_at(into.get(), name, k_append | O_CREAT | O_NOFOLLOW, 0600));
  TRY(check_own(file.get(), name));
  return file;
}

// On NFS, two nodes that append at once overwrite each other. Where there are no locks, or this one
// is held for long, the lines are written without it.
void lock_for_a_while(int fd) {
  constexpr auto k_patience = std::chrono::seconds(20);
  const auto until = std::chrono::steady_clock::now() + k_patience;
  struct flock whole {};
  whole.l_type = F_WRLCK;
  while (::fcntl(fd, F_OFD_SETLK, &whole) != 0) {
    const bool is_busy = errno == EAGAIN || errno == EACCES || errno == EINTR;
    if (!is_busy || std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool ends_in_a_line(int fd) {
  struct stat info {};
  char last = '\n';
  if (::fstat(fd, &info) != 0 || info.st_size == 0) return true;
  return ::pread(fd, &last, 1, info.st_size - 1) != 1 || last == '\n';
}

Status append(int fd, std::string_view lines) {
  lock_for_a_while(fd);
  const std::string text = (ends_in_a_line(fd) ? "" : "\n") + std::string(lines);
  TRY(write_all(fd, text));
  // NFS reports a full quota here, and other nodes see the lines once the lock is gone.
  if (::fsync(fd) != 0) return system_error("cannot write");
  return {};
}

}  // namespace

std::string job_output_path(const AppendOrder& order) {
  const auto path = expand_as_sbatch(order);
  if (!path) return "";
  return path->starts_with('/') ? *path : order.work_dir + "/" + *path;
}

std::string lines_file_name(const AppendOrder& order) {
  return "nodestage-" + std::to_string(order.job) + ".log";
}

Result<Fd> open_job_output(const AppendOrder& order) {
  return order.lines_to == LinesTo::file ? open_lines_file(order)
                                         : open_output(job_output_path(order));
}

int run_append(const Result<Fd>& output, std::string_view lines) {
  if (!output) {
    log_line("the job's output gets no lines about its results: " + output.error().text());
    return 0;
  }
  const Status written = append(output->get(), lines);
  if (written) return 0;
  log_line("lines about the job's results are not in its output: " + written.error().text());
  return 1;
}

}  // namespace nodestage
