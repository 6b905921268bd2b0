#include <doctest/doctest.h>

#include "daemon/worker/sandbox/sandbox.hpp"

using namespace nodestage;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a process with any right beyond its user's is refused") {
  OrderHead order{.uid = 1000, .gid = 100};
  const std::string good =
      "Name:\tw\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\nGroups:\t0 100 \n"
      "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
      "CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n";
  CHECK(verify_process_status(good, order));
  const std::pair<const char*, const char*> changes[] = {{"Uid:\t1000\t1000", "Uid:\t1000\t0"},
                                                         {"100\nGroups", "0\nGroups"},
                                                         {"Uid:\t1000", "Uid:\t1001"},
                                                         {"CapInh:\t0", "CapInh:\t1"},
                                                         {"CapPrm:\t000000000000000", "CapPrm:\t4"},
                                                         {"CapEff:\t0", "CapEff:\t8"},
                                                         {"CapAmb:\t0", "CapAmb:\t2"},
                                                         {"CapAmb:", "CapXXX:"},
                                                         {"NoNewPrivs:\t1", "NoNewPrivs:\t0"},
                                                         {"NoNewPrivs:\t1", ""},
                                                         {"Name:\tw\nUid", "Uuu"}};
  for (const auto& change : changes) {
    INFO(change.first << " → " << change.second);
    CHECK(!verify_process_status(replaced(good, change.first, change.second), order));
  }
  order.uid = 0;
  CHECK(!verify_process_status(replaced(good, "Uid:\t1000\t1000\t1000\t1000", "Uid:\t0\t0\t0\t0"),
                               order));
}
