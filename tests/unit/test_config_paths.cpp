#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/settings/config.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// Settings whose paths are all there, in `scratch`.
Config settings_in(const Scratch& scratch) {
  Config config;
  fs::create_directories(scratch / "local");
  ::chmod((scratch / "local").c_str(), 0755);
  std::ofstream(scratch / "program") << "x";
  config.tmpdir.path = scratch / "local/%u.%j.0";
  config.daemon.state_dir = scratch / "state";
  config.daemon.socket = scratch / "run/x.sock";
  for (std::string* path :
       {&config.slurm.scontrol, &config.daemon.worker_path, &config.peer.program})
    *path = scratch / "program";
  return config;
}

std::string faults_in(const Config& config, std::uint32_t owner = ::geteuid()) {
  std::string all;
  for (const std::string& fault : faults_of_paths(config, owner)) all += fault + "\n";
  return all;
}

}  // namespace

TEST_CASE("paths of the settings: nothing is wrong where they are, or can be made") {
  const Scratch scratch;
  CHECK(faults_in(settings_in(scratch)).empty());
}

TEST_CASE("paths of the settings: the directory of the job directories is there, and its owner's") {
  const Scratch scratch;
  Config config = settings_in(scratch);
  ::chmod((scratch / "local").c_str(), 0777);
  CHECK(has(faults_in(config), "tmpdir.path: " + (scratch / "local") + " must belong to root"));
  ::chmod((scratch / "local").c_str(), 01777);
  CHECK(faults_in(config).empty());
  CHECK(has(faults_in(config, ::geteuid() + 1), "must belong to root"));
  config.tmpdir.path = scratch / "none/deep/%j";
  CHECK(has(faults_in(config), "tmpdir.path: " + (scratch / "none/deep") + " does not exist"));
  config.tmpdir.path = scratch / "program/%j";
  CHECK(has(faults_in(config), "is not a directory"));
}

TEST_CASE("paths of the settings: what nodestaged makes needs its parent, and files exist") {
  const Scratch scratch;
  Config config = settings_in(scratch);
  config.daemon.state_dir = scratch / "none/state";
  config.daemon.socket = scratch / "none/run/x.sock";
  config.metrics.textfile = scratch / "none/x.prom";
  config.venv.find_links = {scratch / "local", scratch / "wheels"};
  config.venv.module_init = scratch / "lmod.sh";
  config.peer.key_file = scratch / "key";
  config.slurm.scontrol = scratch / "scontrol";
  const std::string faults = faults_in(config);
  CHECK(std::count(faults.begin(), faults.end(), '\n') == 7);
  for (const char* setting :
       {"daemon.state_dir: ", "daemon.socket: ", "metrics.textfile: ", "venv.find_links: ",
        "venv.module_init: ", "peer.key_file: ", "slurm.scontrol: "})
    CHECK(has(faults, setting));
  CHECK_FALSE(has(faults, "venv.uv"));
  config.venv.installer = VenvInstaller::uv;
  config.venv.uv = scratch / "uv";
  CHECK(has(faults_in(config), "venv.uv: " + (scratch / "uv") + " does not exist"));
}
