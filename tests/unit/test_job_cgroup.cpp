#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "common/os/file.hpp"
#include "daemon/root/workers/cgroup.hpp"
#include "daemon/root/workers/worker_process.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// A host with the given cgroup mounts, as files of a scratch directory.
struct Host {
  Scratch scratch;
  std::string proc = scratch / "proc";
  std::string mountinfo;

  void mount(const std::string& point, const char* type, const char* options,
             const char* root = "/") {
    mountinfo += std::string("30 24 0:26 ") + root + " " + (scratch / point) +
                 " rw,nosuid shared:4 - " + type + " x " + options + "\n";
    write_file(proc + "/self/mountinfo", mountinfo);
  }
  void own(const std::string& text) const { write_file(proc + "/self/cgroup", text); }
};

// With one hierarchy for memory.
struct JobHost : Host {
  explicit JobHost(const char* type) {
    mount("cg", type, type == std::string("cgroup") ? "rw,memory" : "rw");
  }
  // A process in that cgroup.
  void process(int pid, const std::string& cgroup) const {
    write_file(scratch / ("cg" + cgroup + "/cgroup.procs"), std::to_string(pid) + "\n");
  }
  [[nodiscard]] std::string found_by(std::uint32_t owner) const {
    const JobCgroups cgroups = find_job_cgroups({{5, 1000}}, proc, owner);
    return cgroups.empty() ? "" : cgroups.at({5, 1000});
  }
  [[nodiscard]] std::string found() const {
    const std::string directory = found_by(::geteuid());
    const std::string top = scratch / "cg";
    return directory.starts_with(top) ? directory.substr(top.size()) : directory;
  }
};

}  // namespace

TEST_CASE("empty cgroups of a job are removed, up to the job's own, and no other") {
  const Scratch scratch;
  const fs::path job = scratch / "slurm/uid_1000/job_5";
  fs::create_directories(job / "step_batch/task_0");
  fs::create_directories(job / "step_1");
  remove_job_cgroup(job / "step_batch/task_0");
  CHECK(fs::is_directory(job / "step_1"));
  CHECK_FALSE(fs::exists(job / "step_batch"));
  remove_job_cgroup(job / "step_1/task_0");
  CHECK_FALSE(fs::exists(job));
  CHECK(fs::is_directory(job.parent_path()));
}

TEST_CASE("a job's cgroup is known by Slurm's form of its path") {
  for (const char* own :
       {"/slurm/uid_1000/job_5/step_batch/task_0", "/slurm_n1/uid_1000/job_5/step_0"}) {
    const JobHost host("cgroup");
    host.process(7, own);
    CHECK(host.found() == own);
  }
  for (const char* other :
       {"/slurm/uid_1000/job_55/step_0", "/slurm/uid_1001/job_5/step_0", "/slurm/uid_1000/job_5",
        "/user/uid_1000/job_5/step_0", "/uid_1000/job_5/step_0", "/job_5/step_0"}) {
    CAPTURE(other);
    const JobHost host("cgroup");
    host.process(7, other);
    CHECK(host.found().empty());
  }
  for (const char* own :
       {"/system.slice/slurmstepd.scope/job_5/step_batch/user/task_0",
        "/system.slice/n1_slurmstepd.scope/job_5/step_batch/user/task_0",
        "/docker/0123/system.slice/slurmstepd.scope/job_5/step_extern/user/task_0"}) {
    const JobHost host("cgroup2");
    host.process(7, own);
    CHECK(host.found() == own);
  }
  // The step's own process is where no other may be, and a scope of a user's is none of Slurm's.
  for (const char* other : {"/system.slice/slurmstepd.scope/job_5/step_batch/slurm",
                            "/user.slice/app.scope/job_5/step_batch/user/task_0"}) {
    const JobHost host("cgroup2");
    host.process(7, other);
    CHECK(host.found().empty());
  }
}

TEST_CASE("version 1: the external step's is taken before those that end earlier") {
  const JobHost host("cgroup");
  CHECK(host.found().empty());
  host.process(7, "/slurm/uid_1000/job_6/step_extern");
  host.process(8, "/user.slice");
  CHECK(host.found().empty());
  host.process(9, "/slurm/uid_1000/job_5/step_0/task_0");
  CHECK(host.found() == "/slurm/uid_1000/job_5/step_0/task_0");
  host.process(10, "/slurm/uid_1000/job_5/step_batch/task_0");
  CHECK(host.found() == "/slurm/uid_1000/job_5/step_batch/task_0");
  host.process(11, "/slurm/uid_1000/job_5/step_extern/task_0");
  CHECK(host.found() == "/slurm/uid_1000/job_5/step_extern/task_0");
}

TEST_CASE("cgroup v2: a task's cgroup is found, and not one of slurm's own") {
  const JobHost host("cgroup2");
  const std::string job = "/system.slice/slurmstepd.scope/job_5";
  host.process(9, job + "/step_extern/slurm");
  CHECK(host.found().empty());
  host.process(10, job + "/step_extern/user/task_special");
  CHECK(host.found() == job + "/step_extern/user/task_special");
}

TEST_CASE("one look finds those of several jobs, each the step that lasts longest") {
  const JobHost host("cgroup");
  host.process(7, "/slurm/uid_1000/job_6/step_0");
  host.process(8, "/slurm/uid_1000/job_5/step_extern");
  host.process(9, "/slurm/uid_1000/job_6/step_batch");
  host.process(10, "/slurm/uid_1001/job_7/step_0");
  // What other processes are on the node costs nothing: neither the list of them nor one is read.
  write_file(host.proc + "/99/cgroup", "4:memory:/slurm/uid_1000/job_8/step_0\n");
  const Fd reads(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  for (const char* path : {"", "/99"})
    REQUIRE(::inotify_add_watch(reads.get(), (host.proc + path).c_str(), IN_OPEN) >= 0);
  const JobCgroups found =
      find_job_cgroups({{5, 1000}, {6, 1000}, {7, 1000}, {8, 1000}}, host.proc, ::geteuid());
  REQUIRE(found.size() == 2);
  CHECK(found.at({5, 1000}).ends_with("/job_5/step_extern"));
  CHECK(found.at({6, 1000}).ends_with("/job_6/step_batch"));
  CHECK(find_job_cgroups({}, host.proc, ::geteuid()).empty());
  char event[4096];
  CHECK(::read(reads.get(), event, sizeof event) < 0);
  CHECK(errno == EAGAIN);
}

TEST_CASE("a cgroup of that name which is not root's is none of the job's") {
  const JobHost host("cgroup2");
  host.process(9, "/other.slice/slurmstepd.scope/job_5/step_0/user/task_0");
  // On version 2, what is in a step's cgroup ends with that step.
  CHECK(host.found_by(::geteuid()).empty());
  host.process(9, "/other.slice/slurmstepd.scope/job_5/step_batch/user/task_0");
  CHECK_FALSE(host.found_by(::geteuid()).empty());
  CHECK(host.found_by(::geteuid() + 1).empty());
}

TEST_CASE("a worker learns that the step had ended whose cgroup it was to enter") {
  const Scratch scratch;
  WorkerStart start{.program = "/bin/true"};
  auto directory = must(open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY));
  start.directory_fd = directory.get();
  start.job_cgroup = scratch / "gone";
  const auto fault_of = [&start] {
    auto process = must(WorkerProcess::start(start, Cgroups::none()));
    pollfd ended{process.pid_fd(), POLLIN, 0};
    REQUIRE(::poll(&ended, 1, 60'000) == 1);
    const Error fault = must_fail(process.read_start_fault());
    const WorkerEnd end = process.reap();
    CHECK(end.kind == WorkerEnd::Kind::ended);
    CHECK(end.text == "ended with code 127");
    return fault;
  };
  CHECK(fault_of().code == WorkerProcess::k_step_gone);
  fs::create_directories(scratch / "there/cgroup.procs");
  start.job_cgroup = scratch / "there";
  CHECK(fault_of().what == "the job's memory cgroup cannot be entered: " + start.job_cgroup);
}

TEST_CASE("kills for lack of memory are counted") {
  const Scratch scratch;
  CHECK(out_of_memory_kills(scratch.path()) == 0);
  write_file(scratch.path() / "memory.oom_control",
             "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  CHECK(out_of_memory_kills(scratch.path()) == 3);
  write_file(scratch.path() / "memory.events", "low 0\noom 5\noom_kill 4\n");
  CHECK(out_of_memory_kills(scratch.path()) == 4);
}

TEST_CASE(
    "version 2: controllers are handed on, limits are written, the daemon moves into a leaf") {
  Host host;
  host.mount("cg", "cgroup2", "rw");
  host.own("0::/system.slice/nodestaged.service\n");
  const fs::path own = host.scratch / "cg/system.slice/nodestaged.service";
  write_file(own / "cgroup.controllers", "cpuset cpu io memory pids\n");
  write_file(own / "cgroup.subtree_control", "");
  write_file(own / "supervisor/cgroup.procs", "");
  const auto place = must(Cgroups::hand_on(host.proc));
  CHECK(file_text(own / "cgroup.subtree_control") == "+cpu +memory +pids ");
  write_file(own / "cgroup.subtree_control", "cpu memory pids\n");  // as the kernel shows it
  const auto cgroups = must(Cgroups::discover(place, host.proc));
  CHECK(cgroups.available());
  CHECK(cgroups.missing().empty());
  CHECK(file_text(own / "supervisor/cgroup.procs") == "0");

  const fs::path worker = own / "nodestage-worker-12.0.stage";
  for (const char* name : {"cpu.max", "memory.max", "pids.max", "cgroup.procs", "cgroup.kill"})
    write_file(worker / name, "");
  REQUIRE(cgroups.create("12.0.stage", {3, 1000, 50}));
  CHECK(file_text(worker / "cpu.max") == "300000 100000");
  CHECK(file_text(worker / "memory.max") == "1000");
  CHECK(file_text(worker / "pids.max") == "50");
  REQUIRE(cgroups.enter("12.0.stage"));
  CHECK(file_text(worker / "cgroup.procs") == "0");
  CHECK(cgroups.kill("12.0.stage"));
  CHECK(file_text(worker / "cgroup.kill") == "1");
  CHECK(cgroups.list() == std::set<std::string>{"12.0.stage"});
  CHECK_FALSE(cgroups.kill("13.0.stage"));
  CHECK(cgroups.remove("13.0.stage"));
}

TEST_CASE(
    "version 1 beside a bare version 2: every hierarchy has its limit; a missing one is named") {
  Host host;
  host.mount("unified", "cgroup2", "rw");
  host.mount("cpu", "cgroup", "rw,cpu,cpuacct");
  host.mount("memory", "cgroup", "rw,memory", "/docker/c1");
  host.mount("systemd", "cgroup", "rw,xattr,name=systemd");
  host.own("5:memory:/docker/c1/s\n4:cpu,cpuacct:/s\n1:name=systemd:/s\n0::/s\n");
  write_file(host.scratch / "unified/s/cgroup.controllers", "\n");
  for (const char* directory : {"cpu/s", "memory/s", "systemd/s"})
    fs::create_directories(host.scratch / directory);
  const auto place = must(Cgroups::hand_on(host.proc));
  CHECK_FALSE(fs::exists(host.scratch / "unified/s/supervisor"));  // there is nothing to hand on
  const auto cgroups = must(Cgroups::discover(place, host.proc));
  CHECK(cgroups.missing() == "pids");
  write_file(host.scratch / "cpu/s/nodestage-worker-1.0.out/cpu.cfs_quota_us", "");
  write_file(host.scratch / "memory/s/nodestage-worker-1.0.out/memory.limit_in_bytes", "");
  REQUIRE(cgroups.create("1.0.out", {2, 4096, 9}));
  CHECK(file_text(host.scratch / "cpu/s/nodestage-worker-1.0.out/cpu.cfs_quota_us") == "200000");
  CHECK(file_text(host.scratch / "memory/s/nodestage-worker-1.0.out/memory.limit_in_bytes") ==
        "4096");
  // So that it does not end with the daemon's service.
  CHECK(fs::exists(host.scratch / "systemd/s/nodestage-worker-1.0.out"));
}

TEST_CASE("without cgroups nothing is done and nothing fails") {
  Host host;
  host.own("0::/\n");
  write_file(host.proc + "/self/mountinfo", "");
  const auto found = must(Cgroups::discover("0::/\n", host.proc));
  CHECK_FALSE(found.available());
  CHECK(found.missing() == "cpu, memory, pids");
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
  write_file(slice / "nodestaged.service/cgroup.controllers", "cpu memory pids\n");
  write_file(slice / "nodestage-workers.service/cgroup.subtree_control", "cpu memory pids\n");
  const auto cgroups =
      must(Cgroups::discover("0::/system.slice/nodestage-workers.service\n", host.proc));
  CHECK(cgroups.missing().empty());
  REQUIRE(cgroups.create("1.0.stage", {1, 0, 0}));
  CHECK(fs::exists(slice / "nodestage-workers.service/nodestage-worker-1.0.stage"));
  CHECK_FALSE(fs::exists(slice / "nodestaged.service/supervisor"));
  CHECK_FALSE(must(Cgroups::discover("0::/system.slice/no.service\n", host.proc)).available());
}
