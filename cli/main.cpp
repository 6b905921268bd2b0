// nodestage: the command. Runs with the rights of whoever calls it; asks the daemon of this node on
// its unix socket, which shows a user's own jobs to the user and all to root. Holds and drops
// nothing.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "common/build_info.hpp"
#include "common/daemon_client.hpp"
#include "common/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_daemon_wait{10};

constexpr int k_fault = 1;
constexpr int k_no_such_job = 3;

int fault(const std::string& what, const std::string& to_do) {
  std::fprintf(stderr, "nodestage: %s\n%s\n", printable(what).c_str(), to_do.c_str());
  return k_fault;
}

void print(const StatusRow& row) {
  std::printf("job %u%s: %s\n", row.job,
              row.restart == 0 ? "" : (" (restart " + std::to_string(row.restart) + ")").c_str(),
              printable(row.state).c_str());
  for (const std::string& line : row.lines) {
    std::printf("  %s\n", printable(line, Newlines::keep).c_str());
  }
}

int show_status(const std::string& socket, std::uint32_t job) {
  const char* const to_do =
      "On a compute node tell your administrators (systemctl status nodestaged); a login node has "
      "no daemon.";
  auto daemon = DaemonConnection::open(socket);
  if (!daemon)
    return fault("nodestaged does not answer on this host: " + daemon.error().what, to_do);
  const Deadline deadline = Clock::now() + k_daemon_wait;
  if (const Status sent = daemon->send(StatusQuery{job}, deadline); !sent)
    return fault(sent.error().what, to_do);
  for (unsigned rows = 0;; ++rows) {
    const auto message = daemon->receive(deadline);
    if (!message) return fault(message.error().what, to_do);
    if (const auto* row = std::get_if<StatusRow>(&*message)) {
      print(*row);
    } else if (const auto* refused = std::get_if<Refused>(&*message)) {
      return fault(refused->what, to_do);
    } else {
      if (rows == 0) std::printf("nodestaged has no such job of yours on this node\n");
      return rows == 0 && job != 0 ? k_no_such_job : 0;
    }
  }
}

int run(int argc, char** argv) {
  CLI::App app{"nodestage status [JOBID]: how the staging of your jobs goes on this node.\n"};
  app.set_version_flag("--version", std::string("nodestage ") + k_version);
  app.require_subcommand(1);
  std::string socket = k_socket_path;
  std::uint32_t job = 0;
  auto* status =
      app.add_subcommand("status", "jobs that the daemon of this node knows: yours, or root: all");
  status->add_option("JOBID", job, "only this job");
  status->add_option("--socket", socket, "the daemon's socket")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return show_status(socket, job);
}

}  // namespace
}  // namespace nodestage

int main(int argc, char** argv) {
  try {
    return nodestage::run(argc, argv);
  } catch (const std::exception& fault) {  // of a library
    std::fprintf(stderr, "nodestage: %s\n", fault.what());
    return 1;
  }
}
