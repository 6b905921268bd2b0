#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>
#include <fstream>

#include "cli/run/kept_results.hpp"
#include "common/os/fd.hpp"
#include "scratch.hpp"

using namespace nodestage;

TEST_CASE("what is kept is what is there and was to be delivered") {
  Scratch scratch;
  std::filesystem::create_directory(scratch / "results");
  std::ofstream(scratch / "a.log") << "a";
  std::ofstream(scratch / "b.log") << "b";
  StageRequest request;
  request.outputs.push_back({"results", "/t"});
  request.outputs.push_back({"missing", "/t"});
  request.outputs.push_back({"*.log", "/t/", When::failure});
  const Fd directory(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY));
  const JobTree tree(directory.get(), scratch.path());
  CHECK(kept_results(request, JobOutcome::failure, tree) ==
        std::vector<std::string>{"results", "a.log", "b.log"});
  CHECK(kept_results(request, JobOutcome::success, tree) == std::vector<std::string>{"results"});
}

TEST_CASE("the advice is a command line that a shell takes") {
  CHECK(how_to_copy({"results"}, "/t/d") ==
        "Fetch them with: cp -a /t/d/results ELSEWHERE && rm -rf /t/d");
  CHECK(how_to_copy({"a b"}, "/t") == "Fetch them with: cp -a '/t/a b' ELSEWHERE && rm -rf /t");
  CHECK(how_to_copy({"1", "2", "3", "4", "5", "6"}, "/t") ==
        "Fetch them with: cp -a /t ELSEWHERE && rm -rf /t");
}
