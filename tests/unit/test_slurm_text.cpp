// What the plugin reads from slurm.conf itself.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/slurm/slurm_text.hpp"
#include "scratch.hpp"

using namespace nodestage;

TEST_CASE("slurm.conf: the last value counts, without regard to case, blanks and comments") {
  const Scratch scratch;
  const std::string path = scratch / "slurm.conf";
  std::ofstream(path) << "ClusterName=x\n#EpilogTimeout=1\nepilogtimeout=2 # EpilogTimeout=3\n"
                         "NodeName=n1 CPUs=4 RealMemory=100\n"
                         "  PrologFlags = Alloc,Contain  MinJobAge=300\r\n"
                         "MailProg=\"/bin/a = b\" EpilogTimeout=300\nPrologEpilogTimeout=7";
  const auto of = [&](const char* key) { return setting_in_slurm_conf(path, key); };
  CHECK(of("EpilogTimeout") == "300");
  CHECK(of("prologflags") == "Alloc,Contain");
  CHECK(of("MinJobAge") == "300");
  CHECK(of("MailProg") == "/bin/a = b");
  CHECK(of("RealMemory") == "100");
  CHECK(of("PrologEpilogTimeout") == "7");
  CHECK(of("Timeout") == "");
  CHECK(setting_in_slurm_conf(scratch / "nowhere", "EpilogTimeout") == std::nullopt);
}

TEST_CASE("slurm.conf: files that it includes, beside it and elsewhere; one that includes itself") {
  const Scratch scratch;
  const std::string path = scratch / "slurm.conf";
  const std::string other = scratch / "other.conf";
  std::ofstream(path) << "EpilogTimeout=1\nInclude beside.conf\ninclude " << other
                      << "\nInclude missing.conf\nInclude\n";
  std::ofstream(scratch / "beside.conf")
      << "EpilogTimeout=2\nPrologFlags=X11\nInclude slurm.conf\n";
  std::ofstream(other) << "EpilogTimeout=3\n";
  CHECK(setting_in_slurm_conf(path, "EpilogTimeout") == "3");
  CHECK(setting_in_slurm_conf(path, "PrologFlags") == "X11");
}

TEST_CASE("slurm.conf: a file in a directory, which includes another one, and the cluster's name") {
  const Scratch scratch;
  const std::string path = scratch / "slurm.conf";
  std::filesystem::create_directory(scratch / "conf.d");
  std::ofstream(path) << "ClusterName=Cedar\nInclude conf.d/a.conf\n";
  std::ofstream(scratch / "conf.d/a.conf") << "Include limits_%c.conf\n";
  std::ofstream(scratch / "limits_cedar.conf") << "PrologFlags=X11,\\\nContain\nEpilogTimeout=60\\";
  CHECK(setting_in_slurm_conf(path, "PrologFlags") == "X11,Contain");
  CHECK(setting_in_slurm_conf(path, "EpilogTimeout") == "60");
}

TEST_CASE("slurm.conf: flags by which prologs run at the allocation") {
  for (const char* flags : {"Alloc", "contain", "Serial,X11", "DeferBatch,NoHold"})
    CHECK(implies_alloc(flags));
  for (const char* flags : {"", "serial", "None", ","}) CHECK_FALSE(implies_alloc(flags));
}

TEST_CASE("cpus per node: counts with and without repetition") {
  CHECK(cpus_of_node("4", 0) == 4);
  CHECK(cpus_of_node("4(x2),2", 0) == 4);
  CHECK(cpus_of_node("4(x2),2", 1) == 4);
  CHECK(cpus_of_node("4(x2),2", 2) == 2);
  CHECK(cpus_of_node("1,2,3(x100),4", 101) == 3);
  CHECK(cpus_of_node("1,2,3(x100),4", 102) == 4);
}

TEST_CASE("cpus per node: more nodes than there are, or another form") {
  CHECK_FALSE(cpus_of_node("4(x2),2", 3));
  CHECK_FALSE(cpus_of_node("4", 1));
  for (const char* wrong :
       {"", "x", "(x2)", ",4", "0", "-4", "4(2)", "4(x2", "4(x)", "99999999999"})
    CHECK_FALSE_MESSAGE(cpus_of_node(wrong, 1), wrong);
}
