// bench-worker WORKER SOURCE DIRECTORY [THREADS [KEYS]]
//
// Runs the program WORKER as the daemon runs nodestage-worker (launch.hpp), for one dataset SOURCE
// that becomes DIRECTORY/data, with these keys. Nobody limits its rate or admits it: it admits
// itself. Prints the item's note, or to stderr why it failed; exit code 0 when it did well. Refuses
// root, as the worker does.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/wire/status_file.hpp"
#include "launch.hpp"

namespace nodestage {
namespace {

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
        unsigned threads, const std::string& keys) {
  Launch launch;
  launch.status = memory_file("status", "");
  launch.order = memory_file("order", encode_order(make_order(directory, threads)));
  launch.request = memory_file("request", encode_request(make_request(source, keys)));
  launch.directory = opened(directory, O_RDONLY | O_DIRECTORY);
  launch.rate = rate_file();
  launch.answer = opened("/dev/null", O_RDONLY);
  const pid_t child = start_worker(launch, program);
  int ended = 0;
  if (::waitpid(child, &ended, 0) != child) give_up("cannot wait for the worker");
  const auto status = read_worker_status(launch.status);
  if (!status) give_up(status.error().what);
  return tell(*status, exit_code(ended));
}

}  // namespace
}  // namespace nodestage

int main(int count, char** arguments) {
  if (count < 4 || count > 6) {
    std::fputs("usage: bench-worker WORKER SOURCE DIRECTORY [THREADS [KEYS]]\n", stderr);
    return 2;
  }
  const long threads = count > 4 ? std::atol(arguments[4]) : ::sysconf(_SC_NPROCESSORS_ONLN);
  return nodestage::run(arguments[1], arguments[2], arguments[3], static_cast<unsigned>(threads),
                        count > 5 ? arguments[5] : "");
}
