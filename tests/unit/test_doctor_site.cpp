// What of a site's own plugins and scripts `nodestage doctor` looks at.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("doctor: private /tmp and the job directories") {
  const SlurmConfig on = {{"JobContainerType", "job_container/tmpfs"}};
  const char* conf = "AutoBasePath=true BasePath=/var/lib/jc # x\nDirs=/tmp,/scratch\n";
  CHECK(judge_private_tmp({}, "", "/tmp").grade == Grade::ok);
  CHECK(judge_private_tmp(on, conf, "/localscratch").grade == Grade::ok);
  CHECK(judge_private_tmp(on, conf, "/scratch/jobs").grade == Grade::problem);
  CHECK(judge_private_tmp(on, conf, "/scratchy").grade == Grade::ok);
  CHECK(judge_private_tmp(on, conf, "/var/lib/jc/x").grade == Grade::problem);
  CHECK(judge_private_tmp(on, "Dirs=/tmp,,/scratch\n", "/localscratch").grade == Grade::ok);
  CHECK(judge_private_tmp(on, "basepath=/x/\n", "/tmp").grade == Grade::problem);
  CHECK(judge_private_tmp(on, conf, "").grade == Grade::warning);
  CHECK(judge_private_tmp({{"NamespaceType", "namespace/tmpfs"}}, "BasePath=/x\n", "/x").grade ==
        Grade::problem);
}

TEST_CASE("doctor: private /tmp of namespace/linux, whose file is YAML") {
  const SlurmConfig on = {{"NamespaceType", "namespace/linux"}};
  CHECK(private_tmp_file(on) == "namespace.yaml");
  CHECK(private_tmp_file({{"JobContainerType", "job_container/tmpfs"}}) == "job_container.conf");
  const char* conf =
      "---\ndefaults:\n  auto_base_path: true\n  base_path: \"/var/lib/ns\"  # base_path: /c\n"
      "node_confs:\n  - nodes:\n    - n1\n    options:\n      dirs: \"/tmp, /scratch\"\n"
      "  - base_path: '/other'\n";
  const auto grade = [&](const char* text, const char* root) {
    return judge_private_tmp(on, text, root).grade;
  };
  CHECK(grade(conf, "/localscratch") == Grade::ok);
  CHECK(grade(conf, "/c") == Grade::ok);
  CHECK(grade(conf, "/var/lib/ns/x") == Grade::problem);
  CHECK(grade(conf, "/scratch") == Grade::problem);
  CHECK(grade(conf, "/other") == Grade::problem);
  CHECK(grade("", "/dev/shm/jobs") == Grade::problem);
  CHECK(grade("base_path: none\n", "/localscratch") == Grade::ok);
  CHECK(grade("BasePath=/localscratch\n", "/localscratch") == Grade::ok);
  CHECK(grade(conf, "") == Grade::warning);
}

TEST_CASE("doctor: what a shared object exports, and what it only needs") {
  Dl_info libc{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(&::getppid), &libc) != 0);
  CHECK(exports(libc.dli_fname, "getppid"));
  CHECK_FALSE(exports(libc.dli_fname, "slurm_spank_job_epilog"));
  CHECK_FALSE(exports("/proc/self/exe", "getppid"));
  CHECK_FALSE(exports("/etc/passwd", "getppid"));
  CHECK_FALSE(exports("/nowhere", "getppid"));
}

TEST_CASE("doctor: plugins before nodestage's that have no epilog are nobody's business") {
  const Scratch scratch;
  std::ofstream(scratch / "plugstack.conf")
      << "required gone.so\noptional /etc/passwd\nrequired spank_nodestage.so\nrequired last.so\n";
  const auto lines = must(plugstack_lines(scratch / "plugstack.conf"));
  REQUIRE(lines.size() == 4);
  const auto own = own_line(lines);
  REQUIRE(own == lines.begin() + 2);
  const auto findings = judge_earlier_epilogs({lines.begin(), own}, "/nowhere", "/localscratch");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].grade == Grade::ok);
}

TEST_CASE("doctor: scripts of the site that name job directories") {
  const Scratch scratch;
  const auto script = [&scratch](const char* name, const char* text) {
    std::ofstream(scratch / name) << text;
    return scratch / name;
  };
  const auto judged = [](const std::string& name, const std::string& value) {
    return judge_scripts({{name, value}}, "/localscratch");
  };
  const std::string sets =
      script("sets", "#!/bin/sh\necho \"export SLURM_TMPDIR=/localscratch/$SLURM_JOB_ID\"\n");
  const std::string removes = script("removes", "rm -rf /localscratch/$SLURM_JOB_ID\n");
  const std::string harmless = script("harmless", "# SLURM_TMPDIR is /localscratch\ntrue\n");
  CHECK(judged("TaskProlog", sets).size() == 1);
  CHECK(has(judged("TaskProlog", sets)[0].what, "wins over the directory"));
  CHECK(judged("TaskProlog", removes).empty());
  CHECK(has(judged("Prolog", removes).at(0).what, "names /localscratch"));
  CHECK(has(judged("Epilog[1]", removes).at(0).what, "after nodestage's epilog"));
  CHECK(judged("Epilog", scratch / "*").size() == 2);
  CHECK(judged("EpilogSlurmctld", removes).empty());
  for (const char* name : {"TaskProlog", "Prolog", "Epilog"}) CHECK(judged(name, harmless).empty());
  for (const std::string none : {"(null)", "/nowhere"}) CHECK(judged("Epilog", none).empty());
  CHECK(judge_scripts({{"Epilog", removes}}, "").empty());
}

TEST_CASE("doctor: the state of the node, with what to do") {
  CHECK(judge_node_state(nullptr).empty());
  SlurmNode node{.name = "n1"};
  for (const char* state : {"idle", "mixed", "allocated", "completing", "reserved", "planned"}) {
    node.state = state;
    CHECK(judge_node_state(&node).front().grade == Grade::ok);
  }
  node.is_silent = true;
  CHECK(has(judge_node_state(&node).front().what, "slurmd does not answer the controller"));
  node.state = "draining";
  node.reason = "by \x1b alice";
  const Finding drained = judge_node_state(&node).front();
  CHECK(drained.grade == Grade::warning);
  CHECK(
      has(drained.what, "draining, and slurmd does not answer the controller: it gets no new job"));
  CHECK_FALSE(has(drained.what, "alice"));
  CHECK(has(drained.to_do, "Its reason: by \\x1b alice. Remove the cause."));
  CHECK(has(drained.to_do, "scontrol update nodename=n1 state=resume"));
  node.state = "down";
  CHECK(has(judge_node_state(&node).front().what, "it gets no job"));
}

TEST_CASE("doctor: the controller's host") {
  const SlurmConfig two = {{"SlurmctldHost[0]", "ctl(10.0.0.1)"},
                           {"SlurmctldHost[1]", "ctl2.x.org"}};
  CHECK(is_controller(two, "ctl"));
  CHECK(is_controller(two, "ctl2.x.org"));
  CHECK(is_controller(two, "ctl2"));
  CHECK_FALSE(is_controller(two, "ct"));
  CHECK_FALSE(is_controller({}, "ctl"));
}
