#include <doctest/doctest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "common/request/job_environment.hpp"

using namespace nodestage;

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
