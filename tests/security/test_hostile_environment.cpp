// Attack: the environment that comes with `ready` was written by a worker with the user's rights;
// on its way into the job it must not set what changes how other programs are loaded or found.
#include <doctest/doctest.h>

#include "common/request/job_environment.hpp"

using namespace nodestage;

TEST_CASE("only the names of staging are set") {
  CHECK(settable_name("SLURM_TMPDIR=/l/7") == "SLURM_TMPDIR");
  CHECK(settable_name("NODESTAGE_DATASET=/l/7/d") == "NODESTAGE_DATASET");
  CHECK(settable_name("NODESTAGE_DATASET_A_1=") == "NODESTAGE_DATASET_A_1");
  for (const char* other :
       {"LD_PRELOAD=/x", "PATH=/x", "SLURM_JOB_ID=1", "SLURM_TMPDIRX=1", "=x", "", "NODESTAGE_=x",
        "NODESTAGE_a=x", "NODESTAGE_A B=x", "NODESTAGE_DATASET", " SLURM_TMPDIR=x"})
    CHECK_MESSAGE(settable_name(other).empty(), other);
  CHECK(settable_name(std::string("NODESTAGE_A=x\0y", 15)).empty());
}
