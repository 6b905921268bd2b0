#include "launch.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/request/option_text.hpp"

namespace nodestage {
namespace {

constexpr int k_above = 50;  // beyond the worker's descriptors

[[noreturn]] void become_worker(const Launch& launch, const char* program) {
  const auto give = [](int fd, int number) {
    if (fd >= 0) ::dup2(fd, number);
  };
  give(launch.order, k_worker_order_fd);
  give(launch.request, k_worker_request_fd);
  give(launch.status, k_worker_status_fd);
  give(launch.directory, k_worker_directory_fd);
  give(launch.rate, k_worker_rate_fd);
  give(launch.answer, k_worker_answer_fd);
  give(launch.board, k_worker_board_fd);
  give(launch.spool, k_worker_spool_fd);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(126);
  ::execl(program, "nodestage-worker", nullptr);
  ::_exit(127);
}

}  // namespace

void give_up(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
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

int opened(const std::string& path, int flags) {
  return moved_up(::open(path.c_str(), flags | O_CLOEXEC, 0600));
}

int rate_file() {
  const std::uint64_t unlimited = 0;
  return memory_file("rate", {reinterpret_cast<const char*>(&unlimited), sizeof unlimited});
}

StageOrder make_order(const std::string& directory, unsigned threads) {
  StageOrder order;
  order.uid = ::getuid();
  order.gid = ::getgid();
  order.user = "bench";
  order.node = "here";
  order.directory = directory;
  order.threads = threads;
  return order;
}

StageRequest make_request(const std::string& source, const std::string& keys) {
  StageRequest request;
  request.umask = ::umask(022);
  ::umask(request.umask);
  request.datasets.push_back({source, "data"});
  if (keys.empty()) return request;
  auto item = parse_dataset_option(source + ":data," + keys, {"/", "/"});
  if (!item) give_up(item.error().text());
  request.datasets.back() = std::move(*item);
  return request;
}

pid_t start_worker(const Launch& launch, const char* program) {
  if (::getuid() == 0) give_up("refuses to run as root");
  const pid_t child = ::fork();
  if (child == 0) become_worker(launch, program);
  if (child < 0) give_up("cannot run the worker");
  return child;
}

int exit_code(int ended) { return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended); }

}  // namespace nodestage
