#include <doctest/doctest.h>
#include <stdlib.h>

#include <map>
#include <string>

#include "common/request/job_environment.hpp"

using namespace nodestage;

TEST_CASE("job environment: a staged Python environment is made active as its script would do it") {
  CHECK(venv_in({"NODESTAGE_DATASET=/l/d", "NODESTAGE_VENV=/l/env"}) == "/l/env");
  CHECK(venv_in({"NODESTAGE_DATASET=/l/d"}) == "");
  CHECK(venv_in({"NODESTAGE_VENV=env"}) == "");
  CHECK(activation_of("/l/env", "/usr/bin:/l/env/bin:/bin") ==
        std::vector<VariableChange>{{"PATH", "/l/env/bin:/usr/bin:/bin"},
                                    {"VIRTUAL_ENV", "/l/env"},
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
                            "NODESTAGE_CACHE=/l:/etc", "NODESTAGE_CACHES=/l"}) {
    CAPTURE(other);
    CHECK(binding(other).empty());
  }
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
        "NODESTAGE_VENV", "VIRTUAL_ENV", "NODESTAGE_CACHE", "SINGULARITY_BINDPATH"}) {
    CAPTURE(name);
    CHECK(::getenv(name) == nullptr);
  }
  CHECK(::getenv("PATH") == path);
  CHECK(::getenv("APPTAINER_BINDPATH") == std::string("/data:/in"));
  ::unsetenv("APPTAINER_BINDPATH");
}
