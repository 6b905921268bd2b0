#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>
#include <fstream>

#include "cli/run/run.hpp"
#include "common/os/file.hpp"
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
  StageOutOrder order;
  order.outcome = JobOutcome::failure;
  CHECK(kept_results(request, order, tree) ==
        std::vector<std::string>{"results", "a.log", "b.log"});
  order.outcome = JobOutcome::success;
  CHECK(kept_results(request, order, tree) == std::vector<std::string>{"results"});
  std::ofstream(scratch / "mising") << "a misspelled one";
  CHECK(kept_results(request, order, tree) == std::vector<std::string>{"results", "mising"});
}

TEST_CASE("what links lead to elsewhere in the directory, and two of one name, need the whole") {
  Scratch scratch;
  const std::filesystem::path job = scratch / "job";
  const auto make = [&job](const std::string& path) {
    std::filesystem::create_directories((job / path).parent_path());
    std::ofstream(job / path) << "x";
  };
  make("r/5/a");
  make("r/sub/a");
  make("other/r/a");
  make("links/a");
  std::filesystem::create_symlink(job / "r", job / "results");
  std::filesystem::create_symlink(job / "r/5", job / "r/latest");
  std::filesystem::create_symlink("/etc/passwd", job / "r/outside");
  std::filesystem::create_symlink(job / "other/r/a", job / "links/sub");
  const Fd directory(::open(job.c_str(), O_RDONLY | O_DIRECTORY));
  const JobTree tree(directory.get(), job);
  CHECK_FALSE(need_the_rest({"r"}, tree));
  CHECK_FALSE(need_the_rest({"r/5", "r/sub"}, tree));
  CHECK(need_the_rest({"results"}, tree));
  CHECK(need_the_rest({"results/5"}, tree));
  CHECK(need_the_rest({"r", "links"}, tree));
  CHECK(need_the_rest({"r", "other/r"}, tree));
  CHECK(need_the_rest({"gone"}, tree));
}

TEST_CASE("the advice is a command line that a shell takes") {
  CHECK(how_to_copy({"results"}, "/t/d") ==
        "Fetch them with: cp -a /t/d/results ELSEWHERE && rm -rf /t/d");
  CHECK(how_to_copy({"a b"}, "/t") == "Fetch them with: cp -a '/t/a b' ELSEWHERE && rm -rf /t");
  CHECK(how_to_copy({"1", "2", "3", "4", "5", "6"}, "/t") ==
        "Fetch them with: cp -a /t ELSEWHERE && rm -rf /t");
  CHECK(how_to_copy({}, "/t") == "Fetch them with: cp -a /t ELSEWHERE && rm -rf /t");
}
