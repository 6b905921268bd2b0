#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/request/job_environment.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("job environment: a staged Python environment is made active as its script would do it") {
  CHECK(venv_in({"NODESTAGE_DATASET=/l/d", "NODESTAGE_VENV=/l/env"}) == "/l/env");
  CHECK(venv_in({"NODESTAGE_DATASET=/l/d"}) == "");
  CHECK(venv_in({"NODESTAGE_VENV=env"}) == "");
  CHECK(activation_of("/l/env", "/usr/bin:/l/env/bin:/bin") ==
        std::vector<VariableChange>{{"PATH", "/l/env/bin:/usr/bin:/bin"},
                                    {"VIRTUAL_ENV", "/l/env"},
                                    {"PYTHONHOME", std::nullopt}});
  const Scratch scratch;
  const std::string conda = scratch.path();
  REQUIRE(std::filesystem::create_directory(scratch / "conda-meta"));
  CHECK(activation_of(conda, "/bin") == std::vector<VariableChange>{{"PATH", conda + "/bin:/bin"},
                                                                    {"VIRTUAL_ENV", conda},
                                                                    {"CONDA_PREFIX", conda},
                                                                    {"CONDA_DEFAULT_ENV", conda},
                                                                    {"PYTHONHOME", std::nullopt}});
  CHECK(activation_of("/e", "").front().value == "/e/bin:/usr/local/bin:/usr/bin:/bin");
}

TEST_CASE("job environment: containers see the cache") {
  std::map<std::string, std::string> task{{"NODESTAGE_JOBID", "7"}};
  const VariableLookup value_of = [&task](const char* name) { return task[name]; };
  const auto binding = [&](const char* variable) {
    return cache_binding_of({"SLURM_TMPDIR=/l/7", variable}, "7", value_of);
  };
  const auto both = [](const std::string& apptainer, const std::string& singularity) {
    return std::vector<VariableChange>{{"APPTAINER_BINDPATH", apptainer},
                                       {"SINGULARITY_BINDPATH", singularity}};
  };
  task["APPTAINER_BINDPATH"] = "/data:/in,/l/c/d";
  CHECK(binding("NODESTAGE_CACHE=/l/c") == both("/data:/in,/l/c/d,/l/c", "/l/c"));
  for (const char* other : {"NODESTAGE_CACHE=", "NODESTAGE_CACHE=l", "NODESTAGE_CACHE=/l,/etc",
                            "NODESTAGE_CACHE=/l:/etc", "NODESTAGE_CACHES=/l"})
    CHECK_MESSAGE(binding(other).empty(), other);
  SUBCASE("of another job: not twice") {
    task = {
        {"NODESTAGE_JOBID", "6"}, {"NODESTAGE_CACHE", "/l/c"}, {"APPTAINER_BINDPATH", "/l/c,/x"}};
    CHECK(binding("NODESTAGE_CACHE=/l/c") == both("/x,/l/c", "/l/c"));
  }
  SUBCASE("inherited: the job's later changes stay") {
    task["NODESTAGE_CACHE"] = "/l/c";
    CHECK(binding("NODESTAGE_CACHE=/l/c").empty());
  }
  SUBCASE("inherited from a node with another cache, or to one with none") {
    task["NODESTAGE_CACHE"] = "/other";
    task["APPTAINER_BINDPATH"] = "/x,/other";
    task["SINGULARITY_BINDPATH"] = "/other";
    CHECK(binding("NODESTAGE_CACHE=/l/c") == both("/x,/l/c", "/l/c"));
    CHECK(binding("NODESTAGE_DATASET=/l/7/d") ==
          std::vector<VariableChange>{{"NODESTAGE_CACHE", std::nullopt},
                                      {"APPTAINER_BINDPATH", "/x"},
                                      {"SINGULARITY_BINDPATH", std::nullopt}});
    CHECK(cache_binding_of({}, "7", value_of).empty());  // nothing is known of this node
  }
}

TEST_CASE("job environment: what `nodestage run` has set is left as what a job's staging has") {
  const std::string path = ::getenv("PATH") == nullptr ? "" : ::getenv("PATH");
  ::setenv("SLURM_TMPDIR", "/l", 1);
  leave_staged_job();
  CHECK(::getenv("SLURM_TMPDIR") != nullptr);  // the user's own
  ::setenv("NODESTAGE_RUN", "1", 1);
  ::setenv("NODESTAGE_PUSH_DIR", "/l.2", 1);
  ::setenv("NODESTAGE_DATASET_A", "/l/a", 1);
  ::setenv("NODESTAGE_VENV", "/l/env", 1);
  ::setenv("VIRTUAL_ENV", "/l/env", 1);
  ::setenv("PATH", ("/l/env/bin:" + path).c_str(), 1);
  ::setenv("NODESTAGE_CACHE", "/l/cache", 1);
  ::setenv("APPTAINER_BINDPATH", "/data:/in,/l/cache", 1);
  ::setenv("SINGULARITY_BINDPATH", "/l/cache", 1);
  leave_staged_job();
  for (const char* name :
       {"SLURM_TMPDIR", "NODESTAGE_RUN", "NODESTAGE_PUSH_DIR", "NODESTAGE_DATASET_A",
        "NODESTAGE_VENV", "VIRTUAL_ENV", "NODESTAGE_CACHE", "SINGULARITY_BINDPATH"})
    CHECK_MESSAGE(::getenv(name) == nullptr, name);
  CHECK(::getenv("PATH") == path);
  CHECK(::getenv("APPTAINER_BINDPATH") == std::string("/data:/in"));
  ::unsetenv("APPTAINER_BINDPATH");
}

namespace {

const std::vector<std::string> k_all = {
    "SLURM_SPANK__SLURM_SPANK_OPTION_nodestage_stage_dataset",
    "SLURM_SPANK__SLURM_SPANK_OPTION_nodestage_stage_out",
    "SLURM_SPANK__SLURM_SPANK_OPTION_nodestage_stage_wait",
    "_SLURM_SPANK_OPTION_nodestage_stage_dataset",
    "_SLURM_SPANK_OPTION_nodestage_stage_wait",
    "SLURM_SPANK_NODESTAGE_SPEC",
    "SPANK_NODESTAGE_SPEC",
    "SLURM_TMPDIR",
    "NODESTAGE_JOBID",
    "NODESTAGE_DATASET",
    "NODESTAGE_DATASET_A",
    "NODESTAGE_VENV",
    "NODESTAGE_CACHE",
    "NODESTAGE_OTHER",
    "SLURM_SPANK__SLURM_SPANK_OPTION_other_stage_dataset",
};

// Which of all these are left.
std::vector<std::string> left_after(SubmitFor what) {
  drop_inherited_variables(what);
  std::vector<std::string> left;
  for (const auto& name : k_all) {
    if (::getenv(name.c_str()) != nullptr) left.push_back(name);
    ::unsetenv(name.c_str());
  }
  return left;
}

void set_all() {
  for (const auto& name : k_all) ::setenv(name.c_str(), "x", 1);
}

}  // namespace

TEST_CASE("submit environment: a new job inherits nothing of ours") {
  set_all();
  CHECK(left_after(SubmitFor::allocation) ==
        std::vector<std::string>{"NODESTAGE_OTHER",
                                 "SLURM_SPANK__SLURM_SPANK_OPTION_other_stage_dataset"});
}

TEST_CASE("submit environment: outside of a staged job the user's own variables stay") {
  set_all();
  ::unsetenv("NODESTAGE_JOBID");
  CHECK(left_after(SubmitFor::allocation) ==
        std::vector<std::string>{"SLURM_TMPDIR", "NODESTAGE_DATASET", "NODESTAGE_DATASET_A",
                                 "NODESTAGE_VENV", "NODESTAGE_CACHE", "NODESTAGE_OTHER",
                                 "SLURM_SPANK__SLURM_SPANK_OPTION_other_stage_dataset"});
}

TEST_CASE("submit environment: a step keeps its job's variables and --stage-wait") {
  set_all();
  CHECK(left_after(SubmitFor::step) ==
        std::vector<std::string>{
            "SLURM_SPANK__SLURM_SPANK_OPTION_nodestage_stage_wait",
            "_SLURM_SPANK_OPTION_nodestage_stage_dataset",
            "_SLURM_SPANK_OPTION_nodestage_stage_wait", "SLURM_SPANK_NODESTAGE_SPEC",
            "SPANK_NODESTAGE_SPEC", "SLURM_TMPDIR", "NODESTAGE_JOBID", "NODESTAGE_DATASET",
            "NODESTAGE_DATASET_A", "NODESTAGE_VENV", "NODESTAGE_CACHE", "NODESTAGE_OTHER",
            "SLURM_SPANK__SLURM_SPANK_OPTION_other_stage_dataset"});
}

TEST_CASE("venv environment: PATH with the environment first, once") {
  CHECK(path_with_first("/usr/bin:/bin", "/e/bin") == "/e/bin:/usr/bin:/bin");
  CHECK(path_with_first("/usr/bin:/e/bin:/bin:/e/bin", "/e/bin") == "/e/bin:/usr/bin:/bin");
  CHECK(path_with_first("", "/e/bin") == "/e/bin");
  CHECK(path_without("/e/bin", "/e/bin").empty());
  CHECK(path_without("/e/bin:/e/bin2", "/e/bin") == "/e/bin2");
  CHECK(path_without(":/a:", "/e/bin") == ":/a:");
}

TEST_CASE("venv environment: what a build gets of a submission") {
  const char* const names[] = {"PIP_FIND_LINKS", "PIP_INDEX_URL", "RSNT_ARCH", "EBROOTA", "OTHER"};
  for (const char* name : names) ::setenv(name, "v", 1);
  const auto usual = environment_for_build({});
  CHECK(has(usual, "PIP_FIND_LINKS=v"));
  CHECK_FALSE(has(usual, "PIP_INDEX_URL=v"));  // may hold a password
  CHECK_FALSE(has(usual, "RSNT_ARCH=v"));
  const auto more = environment_for_build({"RSNT_ARCH", "EB*", "*"});
  check_has(more, {"RSNT_ARCH=v", "EBROOTA=v"});
  CHECK_FALSE(has(more, "OTHER=v"));
  for (const char* name : names) ::unsetenv(name);
}

TEST_CASE("venv environment: the first python of PATH") {
  const Scratch scratch;
  for (const char* name : {"a", "b"}) ::mkdir((scratch / name).c_str(), 0700);
  const std::string path = "relative:" + (scratch / "a") + ":" + (scratch / "b");
  CHECK(python_in(path).empty());
  std::ofstream(scratch / "a/python3") << "no program";
  std::ofstream(scratch / "b/python3") << "#!/bin/sh\n";
  ::chmod((scratch / "b/python3").c_str(), 0700);
  CHECK(python_in(path) == scratch / "b/python3");
  std::ofstream(scratch / "a/python") << "#!/bin/sh\n";
  ::chmod((scratch / "a/python").c_str(), 0700);
  CHECK(python_in(path) == scratch / "b/python3");
  CHECK(program_in_path(path, "python") == scratch / "a/python");
  CHECK(program_in_path(path, "python3.9").empty());
}

TEST_CASE("submit environment: an environment of the user's own stays active") {
  ::setenv("NODESTAGE_JOBID", "7", 1);
  ::setenv("NODESTAGE_VENV", "/l/a.7/env", 1);
  ::setenv("VIRTUAL_ENV", "/home/a/own", 1);
  drop_inherited_variables(SubmitFor::allocation);
  CHECK(::getenv("VIRTUAL_ENV") == std::string("/home/a/own"));
  ::unsetenv("VIRTUAL_ENV");
}
