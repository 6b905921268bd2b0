#include <doctest/doctest.h>
#include <unistd.h>

#include "cli/base/programs.hpp"

using namespace nodestage;

namespace {

Program shell(const std::string& script) { return {{"sh", "-c", script}, {}, {}}; }

}  // namespace

TEST_CASE("programs: output, errors and codes, in the order of the programs") {
  std::vector<Program> programs;
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    programs.push_back(shell("echo out " + n + "; echo error " + n + " >&2; exit " + n));
  }
  const auto ends = run_programs(programs);
  REQUIRE(ends.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(ends[i].code == static_cast<int>(i));
    CHECK(ends[i].output == "out " + std::to_string(i) + "\n");
    CHECK(ends[i].errors == "error " + std::to_string(i) + "\n");
    CHECK_FALSE(ends[i].late);
  }
  CHECK(run_programs({}).empty());
}

TEST_CASE("programs: what cannot be run, and what a signal ends") {
  CHECK(run_program({{"/no/such/program"}, {}, {}}).code == 127);
  CHECK(run_program({{"/no/such/program"}, {}, {}}).is_not_run());
  CHECK(run_program({{"/etc/passwd"}, {}, {}}).code == 126);
  CHECK(run_program(shell("kill -KILL $$")).code == 137);
}

TEST_CASE("programs: nothing to read, and only the environment that is given") {
  CHECK(run_program(shell("cat; echo end")).output == "end\n");
  CHECK(run_program({{"/usr/bin/env"}, {{"A=1", "B=2"}}, {}}).output == "A=1\nB=2\n");
}

TEST_CASE("programs: one that goes on too long is ended, with what it has started") {
  const auto ends = run_programs(
      {shell("echo begun; sleep 1000"), shell("sleep 1000 & echo other")}, std::chrono::seconds(1));
  CHECK(ends[0].late);
  CHECK(ends[0].code == 143);
  CHECK(ends[1].late);  // its child holds the output
}

TEST_CASE("programs: output is bounded") {
  const auto end = run_program(shell("head -c 5000000 /dev/zero"));
  CHECK(end.code == 0);
  CHECK(end.output.size() == 4 << 20);
  CHECK(end.is_cut);
  const auto errors = run_program(shell("head -c 70000 /dev/zero | tr '\\0' x >&2; echo"));
  CHECK(errors.errors.size() == k_most_errors);
  CHECK(errors.output == "\n");
  CHECK_FALSE(errors.is_cut);
}

TEST_CASE("programs: root becomes another user, nobody else does") {
  const auto nobody = account_of(65534);
  REQUIRE(nobody);
  const ProgramEnd end = run_program({{"id", "-u"}, {}, *nobody});
  if (::geteuid() == 0) {
    CHECK(end.output == "65534\n");
  } else {
    CHECK(end.code == 126);
  }
  CHECK_FALSE(account_of(4294967290U));
}
