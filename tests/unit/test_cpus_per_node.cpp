#include <doctest/doctest.h>

#include "common/slurm/slurm_text.hpp"

using namespace nodestage;

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
       {"", "x", "(x2)", ",4", "0", "-4", "4(2)", "4(x2", "4(x)", "99999999999"}) {
    CAPTURE(wrong);
    CHECK_FALSE(cpus_of_node(wrong, 1));
  }
}
