// bench-worker WORKER SOURCE DIRECTORY [THREADS]
//
// Runs the program WORKER as the daemon runs nodestage-worker: with the descriptors of
// common/wire/worker_order.hpp and no_new_privs, for one dataset SOURCE that becomes
// DIRECTORY/data, with this process's user, groups and umask. Nobody limits its rate or admits it:
// it admits itself. Prints the item's note, or to stderr why it failed; exit code 0 when it did
// well. Refuses root, as the worker does.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/request/request.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {
namespace {

constexpr int k_above = 50;  // beyond the worker's descriptors

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench-worker: %s\n", what.c_str());
  std::exit(3);
}

int moved_up(int fd) {
  const int high = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, k_above);
  if (high < 0) give_up("a descriptor cannot be made");
  ::close(fd);
  return high;
}

int memory_file(const char* name, std::string_view content) {
  const int fd = moved_up(::memfd_create(name, MFD_CLOEXEC));
  if (::pwrite(fd, content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    give_up("a file in memory cannot be written");
  }
  return fd;
}

WorkerOrder make_order(const std::string& directory, unsigned threads) {
  WorkerOrder order;
  order.uid = ::getuid();
  order.gid = ::getgid();
  order.user = "bench";
  order.node = "here";
  order.directory = directory;
  order.threads = threads;
  return order;
}

StageRequest make_request(const std::string& source) {
  StageRequest request;
  request.umask = ::umask(022);
  ::umask(request.umask);
  request.datasets.push_back({});
  request.datasets.back().source = source;
  request.datasets.back().destination = "data";
  return request;
}

struct Launch {
  int status;
  int order;
  int request;
  int directory;
  int rate;
  int answer;
};

[[noreturn]] void become_worker(const Launch& launch, const char* program) {
  ::dup2(launch.order, k_worker_order_fd);
  ::dup2(launch.request, k_worker_request_fd);
  ::dup2(launch.status, k_worker_status_fd);
  ::dup2(launch.directory, k_worker_directory_fd);
  ::dup2(launch.rate, k_worker_rate_fd);
  ::dup2(launch.answer, k_worker_answer_fd);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(126);
  ::execl(program, "nodestage-worker", nullptr);
  ::_exit(127);
}

int tell(const WorkerStatus& status, int code) {
  if (code == 0 && status.phase == WorkerPhase::done) {
    for (const auto& item : status.items) {
      if (item.note[0] != '\0') std::puts(field_text(item.note).c_str());
    }
    return 0;
  }
  std::string cause = status.cause;
  if (cause.empty()) cause = "the worker ended with code " + std::to_string(code);
  std::fprintf(stderr, "%s\n", cause.c_str());
  return 1;
}

int run(const char* program, const std::string& source, const std::string& directory,
        unsigned threads) {
  if (::getuid() == 0) give_up("refuses to run as root");
  const std::uint64_t unlimited = 0;
  const Launch launch{
      memory_file("status", ""),
      memory_file("order", encode_order(make_order(directory, threads))),
      memory_file("request", encode_request(make_request(source))),
      moved_up(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      memory_file("rate", {reinterpret_cast<const char*>(&unlimited), sizeof unlimited}),
      moved_up(::open("/dev/null", O_RDONLY | O_CLOEXEC))};
  const pid_t child = ::fork();
  if (child == 0) become_worker(launch, program);
  int ended = 0;
  if (child < 0 || ::waitpid(child, &ended, 0) != child) give_up("cannot run the worker");
  const auto status = read_worker_status(launch.status);
  if (!status) give_up(status.error().what);
  return tell(*status, WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended));
}

}  // namespace
}  // namespace nodestage

int main(int count, char** arguments) {
  if (count != 4 && count != 5) {
    std::fputs("usage: bench-worker WORKER SOURCE DIRECTORY [THREADS]\n", stderr);
    return 2;
  }
  const long threads = count == 5 ? std::atol(arguments[4]) : ::sysconf(_SC_NPROCESSORS_ONLN);
  return nodestage::run(arguments[1], arguments[2], arguments[3], static_cast<unsigned>(threads));
}
