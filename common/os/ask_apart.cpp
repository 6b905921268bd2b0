#include "common/os/ask_apart.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "common/os/child.hpp"
#include "common/os/child_process.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t k_most_bytes = 64 * 1024;

// Runs in the process that asks. A reader of this program's output waits until no process holds it,
// so nothing but the pipe stays open.
int answer_into(int pipe, const std::function<std::string()>& question) {
  static_cast<void>(std::signal(SIGPIPE, SIG_DFL));
  if (!place_descriptors({pipe})) return 1;
  return write_all(0, question()) ? 0 : 1;
}

// A child that has exited leaves its own child to init.
Status start_apart(int pipe, const std::function<std::string()>& question) {
  const auto fork_and_leave = [&] {
    const auto asking =
        ChildProcess::start(Orphan::left, [&] { return answer_into(pipe, question); });
    return asking ? 0 : 1;
  };
  auto child = ChildProcess::start(Orphan::left, fork_and_leave);
  if (!child) return child.error();
  child->wait();
  return {};
}

// Returns whether there is something to read, or the end.
bool wait_readable(int fd, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waited{fd, POLLIN, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

std::optional<std::string> ask_apart(std::chrono::milliseconds limit,
                                     const std::function<std::string()>& question) {
  auto pipe = make_pipe();
  if (!pipe) return {};
  const Clock::time_point until = Clock::now() + limit;
  if (!start_apart(pipe->write.get(), question)) return {};
  pipe->write = Fd();
  std::string answer;
  std::array<char, 4096> part{};
  while (answer.size() < k_most_bytes && wait_readable(pipe->read.get(), until)) {
    const ssize_t bytes = ::read(pipe->read.get(), part.data(), part.size());
    if (bytes == 0) return answer;
    if (bytes < 0) return {};
    answer.append(part.data(), static_cast<std::size_t>(bytes));
  }
  return {};
}

}  // namespace nodestage
