#include <doctest/doctest.h>

#include <fstream>

#include "daemon/worker/venv/requirements.hpp"
#include "scratch.hpp"
#include "texts.hpp"

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
    CHECK(has(fault, "wheels-only"));
  }
  CHECK(has(fault_of("-\\\r\ne .\r\n"), "'-e .' is not a wheel"));
  CHECK(has(fault_of("-\\\ne .\n"), "'-e .' is not a wheel"));
}

TEST_CASE("requirements: -r is followed, in circles too") {
  const Scratch scratch;
  std::ofstream(scratch / "a.txt") << "-r b.txt\n";
  std::ofstream(scratch / "b.txt") << "--requirement=a.txt\n-rc.txt\n";
  CHECK(check_wheels_only(scratch / "a.txt"));
  std::ofstream(scratch / "c.txt") << "-e .\n";
  const Status status = check_wheels_only(scratch / "a.txt");
  REQUIRE_FALSE(status);
  CHECK(has(status.error().text(), "c.txt: '-e .'"));
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

namespace {

// The same text as PowerShell's `>` writes it.
std::string in_utf16(std::string_view text) {
  std::string bytes = "\xFF\xFE";
  for (const char c : text) (bytes += c) += '\0';
  return bytes;
}

// The fault of what a build cannot reach, "" for none.
std::string beyond(const std::string& content, std::string_view log = {}) {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt", std::ios::binary) << content;
  const Status status = check_reach(scratch / "r.txt", {"HOME=/home/a", "W=/w", "R=more"}, log);
  return status ? "" : status.error().what;
}

}  // namespace

TEST_CASE("requirements: UTF-16 with a byte order mark is text, and is looked into") {
  const Scratch scratch;
  std::ofstream(scratch / "r.txt", std::ios::binary) << in_utf16("numpy==1.24.2\r\n-e .\r\n");
  CHECK(check_is_requirements(scratch / "r.txt"));
  CHECK(fault_of(in_utf16("numpy==1.24.2\r\nshout\r\n")).empty());
  CHECK(has(fault_of(in_utf16("numpy\r\n-e .\r\n")), "'-e .'"));
  CHECK(has(fault_of("\xEF\xBB\xBF-e .\n"), "'-e .'"));
}

TEST_CASE("requirements: what is downloaded, with the line") {
  for (const char* line : {"demo @ https://host/demo-1.0-py3-none-any.whl",
                           "git+https://host/x.git", "-e git+ssh://git@host/x#egg=x",
                           "-r https://host/more.txt", "demo[a] @ git+https://host/x@v1"}) {
    const std::string fault = beyond("numpy\n" + std::string(line) + "\n");
    CHECK(has(fault, "'" + std::string(line) + "' is downloaded"));
  }
  CHECK(has(beyond("x @ https://me:secret@host/x.whl"), "https://****@host/x.whl"));
  CHECK(beyond("--index-url https://host/simple\n--extra-index-url https://${TOKEN}@host/\nnumpy\n"
               "y @ file:///w/y-1-py3-none-any.whl\n-f https://host/wheels\n# https://host\n")
            .empty());
}

TEST_CASE("requirements: a line with a marker counts if pip has acted on it") {
  const std::string text = "demo @ https://me:x@host/demo.whl ; python_version >= '3.8'\n";
  CHECK(beyond(text).empty());
  CHECK(beyond(text, "No matching distribution found for other").empty());
  CHECK_FALSE(beyond(text, "Collecting demo@ https://me:****@host/demo.whl").empty());
}

TEST_CASE("requirements: variables that the build has, and one that it has not") {
  CHECK(beyond("${W}/demo-1-py3-none-any.whl\n--find-links ${W}\n-c ${R}.txt\n").empty());
  CHECK(has(beyond("numpy\n${WHEELS}/demo-1-py3-none-any.whl\n"),
            "'${WHEELS}/demo-1-py3-none-any.whl': the build has no variable ${WHEELS}"));
  CHECK_FALSE(beyond("-r ${W}/${NONE}/r.txt").empty());
  CHECK(beyond("${small}/$W/${}x-1-py3-none-any.whl").empty());
  CHECK(with_variables("${W}-${W}${NONE}${R}", {"W=${W}", "R=r"}) == "${W}-${W}${NONE}r");
}

TEST_CASE("requirements: what is included is looked at, too") {
  const Scratch scratch;
  std::ofstream(scratch / "a.txt") << "-r ${PART}.txt\n";
  std::ofstream(scratch / "b.txt") << "-c a.txt\nx @ https://host/x.whl\n";
  const Status status = check_reach(scratch / "a.txt", {"PART=b"});
  REQUIRE_FALSE(status);
  CHECK(has(status.error().what, "b.txt: 'x @ https://host/x.whl'"));
}
