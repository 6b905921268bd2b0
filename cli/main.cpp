// nodestage: the command. Runs with the rights of whoever calls it; asks the daemon of this node on
// its unix socket, which shows a user's own jobs to the user and all to root. Holds and drops
// nothing. One file per verb.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "cli/doctor.hpp"
#include "cli/held.hpp"
#include "cli/recover.hpp"
#include "cli/status.hpp"
#include "cli/wait.hpp"
#include "common/build_info.hpp"

namespace nodestage {
namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "nodestage: how the staging of your jobs goes on this node, and what is held here.\n"};
  app.set_version_flag("--version", std::string("nodestage ") + k_version);
  app.require_subcommand(1);
  std::string socket = k_socket_path;
  const auto verb = [&](const char* name, const char* what) {
    auto* added = app.add_subcommand(name, what);
    added->add_option("--socket", socket, "the daemon's socket")->capture_default_str();
    return added;
  };

  std::uint32_t job = 0;
  auto* status = verb("status", "jobs that the daemon of this node knows: yours, or root: all");
  status->add_option("JOBID", job, "only this job");

  auto* held = verb("held", "your results that could not be delivered and are kept on this node");

  RecoverArguments arguments;
  auto* recovery = verb("recover", "copy what a job could not deliver to DIR, and let it go");
  recovery->add_option("JOBID", arguments.job, "the job, as `held` shows it")->required();
  recovery->add_option("DIR", arguments.directory, "made if need be")->required();
  recovery->add_option("--node", arguments.node, "the node that holds it, reached by srun");

  WaitArguments awaited;
  auto* waiting = verb("wait", "inside a job: until datasets of it are in place on this node");
  waiting->add_option("NAME", awaited.names,
                      "as in NODESTAGE_DATASET_<NAME>, or a place below $SLURM_TMPDIR; none: all");
  waiting->add_flag("--quiet", awaited.quiet, "say nothing but why it failed");

  DoctorArguments examined;
  auto* doctor = verb("doctor", "what on this host keeps staging from working, and what to do");
  doctor->add_option("--host", examined.host, "what it is (default: as it looks)")
      ->check(CLI::IsMember({"login", "compute"}));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code != 0 && waiting->parsed() ? k_wrong_usage : code;
  }
  if (waiting->parsed()) {
    awaited.socket = socket;
    return wait_for_datasets(awaited);
  }
  if (doctor->parsed()) {
    examined.socket = socket;
    return examine_host(examined);
  }
  if (held->parsed()) return show_held(socket);
  if (!recovery->parsed()) return show_status(socket, job);
  arguments.socket = socket;
  return recover(arguments);
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
