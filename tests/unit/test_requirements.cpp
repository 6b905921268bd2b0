#include <doctest/doctest.h>

#include <fstream>

#include "daemon/worker/venv/requirements.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

// The fault for a file of that content, "" for none.
std::string fault_of(const std::string& content) {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt", std::ios::binary) << content;
  const Status status = check_wheels_only(scratch / "r.txt");
  return status ? "" : status.error().text();
}

}  // namespace

TEST_CASE("requirements: names, versions, hashes and wheels are fine") {
  CHECK(fault_of("").empty());
  CHECK(fault_of(
            "# -e .\nnumpy==1.24.2 \\\n    --hash=sha256:abc\npkg[extra]>=1; python_version < '4'\n"
            "--find-links ./wheels\n-c constraints.txt\n./wheels/x-1-py3-none-any.whl\n"
            "y @ file:///w/y-1-py3-none-any.whl#sha256=12\r\n")
            .empty());
}

TEST_CASE("requirements: what would run code of its sources is refused, with the line") {
  for (const char* line : {"-e .",
                           "--editable=src/x",
                           "./pkg",
                           "/home/a/pkg",
                           "x-1.0.tar.gz",
                           "pkg/x-1.0.zip",
                           "git+https://host/x.git",
                           "x @ git+ssh://host/x",
                           "x @ file:///home/a/x",
                           "--no-binary :all:",
                           "  -e git+https://host/x#egg=x",
                           "--pre --no-binary :all:",
                           "--no-bin=x",
                           "--pre -e .",
                           "--edit .",
                           "numpy --no-binary=x",
                           "--pre \"--no-binary\" x",
                           "x\t@ file:///home/a/x",
                           "# x \\\n-e .",
                           "x\r-e .",
                           "x\f-e ."}) {
    const std::string fault = fault_of("numpy\n" + std::string(line) + "\n");
    CHECK(fault.find("wheels-only") != std::string::npos);
  }
  CHECK(fault_of("-\\\r\ne .\r\n").find("'-e .' is not a wheel") != std::string::npos);
  CHECK(fault_of("-\\\ne .\n").find("'-e .' is not a wheel") != std::string::npos);
}

TEST_CASE("requirements: -r is followed, in circles too") {
  const Scratch scratch;
  std::ofstream(scratch / "a.txt") << "-r b.txt\n";
  std::ofstream(scratch / "b.txt") << "--requirement=a.txt\n-rc.txt\n";
  CHECK(check_wheels_only(scratch / "a.txt"));
  std::ofstream(scratch / "c.txt") << "-e .\n";
  const Status status = check_wheels_only(scratch / "a.txt");
  REQUIRE_FALSE(status);
  CHECK(status.error().text().find("c.txt: '-e .'") != std::string::npos);
}

TEST_CASE("requirements: constraints and addresses of files are followed, so many of them") {
  const Scratch scratch;
  std::ofstream(scratch / "c.txt") << "x @ file:///home/a/x\n";
  std::ofstream(scratch / "a.txt") << "-c c.txt\nx\n";
  CHECK_FALSE(check_wheels_only(scratch / "a.txt"));
  std::ofstream(scratch / "b.txt") << "--pre --requirement file://" << (scratch / "c.txt") << "\n";
  CHECK_FALSE(check_wheels_only(scratch / "b.txt"));
  std::ofstream many(scratch / "many.txt");
  for (int i = 0; i < 1000; ++i) many << "-r " << (i % 2 == 0 ? "./" : "") << "many.txt\n";
  many.close();
  CHECK(check_wheels_only(scratch / "many.txt"));
}

TEST_CASE("requirements: files that are something else") {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt") << "numpy\n";
  std::ofstream(scratch / "empty.txt") << "";
  std::ofstream(scratch / "pyproject.toml") << "[project]\n";
  std::ofstream(scratch / "data", std::ios::binary) << std::string("a\0b", 3);
  CHECK(check_is_requirements(scratch / "r.txt"));
  CHECK(check_is_requirements(scratch / "empty.txt"));
  CHECK_FALSE(check_is_requirements(scratch / "pyproject.toml"));
  CHECK_FALSE(check_is_requirements(scratch / "data"));
}
