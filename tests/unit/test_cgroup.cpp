#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/root/workers/cgroup.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text = "") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A host with the given cgroup mounts, as files of a scratch directory.
struct Host {
  Scratch scratch;
  std::string proc = scratch / "proc";
  std::string mountinfo;

  void mount(const std::string& point, const char* type, const char* options,
             const char* root = "/") {
    mountinfo += std::string("30 24 0:26 ") + root + " " + (scratch / point) +
                 " rw,nosuid shared:4 - " + type + " x " + options + "\n";
    write(proc + "/self/mountinfo", mountinfo);
  }
  void own(const std::string& text) const { write(proc + "/self/cgroup", text); }
};

}  // namespace

TEST_CASE(
    "version 2: controllers are handed on, limits are written, the daemon moves into a leaf") {
  Host host;
  host.mount("cg", "cgroup2", "rw");
  host.own("0::/system.slice/nodestaged.service\n");
  const fs::path own = host.scratch / "cg/system.slice/nodestaged.service";
  write(own / "cgroup.controllers", "cpuset cpu io memory pids\n");
  write(own / "cgroup.subtree_control");
  write(own / "supervisor/cgroup.procs");
  const auto place = Cgroups::hand_on(host.proc);
  REQUIRE_MESSAGE(place, (place ? "" : place.error().what));
  CHECK(read(own / "cgroup.subtree_control") == "+cpu +memory +pids ");
  write(own / "cgroup.subtree_control", "cpu memory pids\n");  // as the kernel shows it
  const auto cgroups = Cgroups::discover(*place, host.proc);
  REQUIRE_MESSAGE(cgroups, (cgroups ? "" : cgroups.error().what));
  CHECK(cgroups->available());
  CHECK(cgroups->missing().empty());
  CHECK(read(own / "supervisor/cgroup.procs") == "0");

  const fs::path worker = own / "nodestage-worker-12.0.stage";
  for (const char* name : {"cpu.max", "memory.max", "pids.max", "cgroup.procs", "cgroup.kill"})
    write(worker / name);
  REQUIRE(cgroups->create("12.0.stage", {3, 1000, 50}));
  CHECK(read(worker / "cpu.max") == "300000 100000");
  CHECK(read(worker / "memory.max") == "1000");
  CHECK(read(worker / "pids.max") == "50");
  REQUIRE(cgroups->enter("12.0.stage"));
  CHECK(read(worker / "cgroup.procs") == "0");
  CHECK(cgroups->kill("12.0.stage"));
  CHECK(read(worker / "cgroup.kill") == "1");
  CHECK(cgroups->list() == std::vector<std::string>{"12.0.stage"});
  CHECK_FALSE(cgroups->kill("13.0.stage"));
  CHECK(cgroups->remove("13.0.stage"));
}

TEST_CASE(
    "version 1 beside a bare version 2: every hierarchy has its limit; a missing one is named") {
  Host host;
  host.mount("unified", "cgroup2", "rw");
  host.mount("cpu", "cgroup", "rw,cpu,cpuacct");
  host.mount("memory", "cgroup", "rw,memory", "/docker/c1");
  host.mount("systemd", "cgroup", "rw,xattr,name=systemd");
  host.own("5:memory:/docker/c1/s\n4:cpu,cpuacct:/s\n1:name=systemd:/s\n0::/s\n");
  write(host.scratch / "unified/s/cgroup.controllers", "\n");
  for (const char* directory : {"cpu/s", "memory/s", "systemd/s"})
    fs::create_directories(host.scratch / directory);
  const auto place = Cgroups::hand_on(host.proc);
  REQUIRE(place);
  CHECK_FALSE(fs::exists(host.scratch / "unified/s/supervisor"));  // there is nothing to hand on
  const auto cgroups = Cgroups::discover(*place, host.proc);
  REQUIRE(cgroups);
  CHECK(cgroups->missing() == "pids");
  write(host.scratch / "cpu/s/nodestage-worker-1.0.out/cpu.cfs_quota_us");
  write(host.scratch / "memory/s/nodestage-worker-1.0.out/memory.limit_in_bytes");
  REQUIRE(cgroups->create("1.0.out", {2, 4096, 9}));
  CHECK(read(host.scratch / "cpu/s/nodestage-worker-1.0.out/cpu.cfs_quota_us") == "200000");
  CHECK(read(host.scratch / "memory/s/nodestage-worker-1.0.out/memory.limit_in_bytes") == "4096");
  // So that it does not end with the daemon's service.
  CHECK(fs::exists(host.scratch / "systemd/s/nodestage-worker-1.0.out"));
}

TEST_CASE("without cgroups nothing is done and nothing fails") {
  Host host;
  host.own("0::/\n");
  write(host.proc + "/self/mountinfo");
  const auto found = Cgroups::discover("0::/\n", host.proc);
  REQUIRE(found);
  CHECK_FALSE(found->available());
  CHECK(found->missing() == "cpu, memory, pids");
  const Cgroups none = Cgroups::none();
  CHECK(none.create("x", {}));
  CHECK(none.enter("x"));
  CHECK_FALSE(none.kill("x"));
  CHECK(none.remove("x"));
}

TEST_CASE("workers live below the cgroup that another process has handed on, not below the own") {
  Host host;
  host.mount("cg", "cgroup2", "rw");
  host.own("0::/system.slice/nodestaged.service\n");
  const fs::path slice = host.scratch / "cg/system.slice";
  write(slice / "nodestaged.service/cgroup.controllers", "cpu memory pids\n");
  write(slice / "nodestage-workers.service/cgroup.subtree_control", "cpu memory pids\n");
  const auto cgroups = Cgroups::discover("0::/system.slice/nodestage-workers.service\n", host.proc);
  REQUIRE(cgroups);
  CHECK(cgroups->missing().empty());
  REQUIRE(cgroups->create("1.0.stage", {1, 0, 0}));
  CHECK(fs::exists(slice / "nodestage-workers.service/nodestage-worker-1.0.stage"));
  CHECK_FALSE(fs::exists(slice / "nodestaged.service/supervisor"));
  const auto gone = Cgroups::discover("0::/system.slice/no.service\n", host.proc);
  REQUIRE(gone);
  CHECK_FALSE(gone->available());
}
