#include <doctest/doctest.h>
#include <stdlib.h>

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

TEST_CASE("job environment: the cache is in the lists of bind paths, once") {
  CHECK(cache_in({"NODESTAGE_VENV=/l/env", "NODESTAGE_CACHE=/l/.nodestage-cache"}) ==
        "/l/.nodestage-cache");
  for (const char* other : {"NODESTAGE_CACHE=", "NODESTAGE_CACHE=l", "NODESTAGE_CACHE=/l,/etc",
                            "NODESTAGE_CACHE=/l:/etc", "NODESTAGE_CACHES=/l"}) {
    CAPTURE(other);
    CHECK(cache_in({other}) == "");
  }
  CHECK(bind_list_with("", "/c") == "/c");
  CHECK(bind_list_with("/data:/in,/scratch", "/c") == "/data:/in,/scratch,/c");
  CHECK(bind_list_with("/c,/scratch", "/c") == "/scratch,/c");
  CHECK(bind_list_with("/c/d", "/c") == "/c/d,/c");
  CHECK(bind_list_without("/data:/in,/c,/scratch", "/c") == "/data:/in,/scratch");
  CHECK(bind_list_without("/c", "/c") == "");
}

TEST_CASE("job environment: what `nodestage run` has set is left as what a job's staging has") {
  const std::string path = ::getenv("PATH") == nullptr ? "" : ::getenv("PATH");
  ::setenv("SLURM_TMPDIR", "/l", 1);
  leave_staged_job();
  CHECK(::getenv("SLURM_TMPDIR") != nullptr);  // the user's own
  ::setenv("NODESTAGE_RUN", "1", 1);
  ::setenv("NODESTAGE_DATASET_A", "/l/a", 1);
  ::setenv("NODESTAGE_VENV", "/l/env", 1);
  ::setenv("VIRTUAL_ENV", "/l/env", 1);
  ::setenv("PATH", ("/l/env/bin:" + path).c_str(), 1);
  ::setenv("NODESTAGE_CACHE", "/l/cache", 1);
  ::setenv("APPTAINER_BINDPATH", "/data:/in,/l/cache", 1);
  ::setenv("SINGULARITY_BINDPATH", "/l/cache", 1);
  leave_staged_job();
  for (const char* name : {"SLURM_TMPDIR", "NODESTAGE_RUN", "NODESTAGE_DATASET_A", "NODESTAGE_VENV",
                           "VIRTUAL_ENV", "NODESTAGE_CACHE", "SINGULARITY_BINDPATH"}) {
    CAPTURE(name);
    CHECK(::getenv(name) == nullptr);
  }
  CHECK(::getenv("PATH") == path);
  CHECK(::getenv("APPTAINER_BINDPATH") == std::string("/data:/in"));
  ::unsetenv("APPTAINER_BINDPATH");
}
