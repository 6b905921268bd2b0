#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "cli/run/run.hpp"
#include "common/os/file.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

void leave_slurm() {
  for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
                           "SLURM_JOB_NAME", "SLURM_NODEID", "SLURM_RESTART_COUNT"})
    ::unsetenv(name);
}

StageRequest with_target(const std::string& target) {
  StageRequest request;
  request.outputs.push_back({"r", target});
  return request;
}

}  // namespace

TEST_CASE("outside of Slurm every pattern but %a has a sensible value") {
  leave_slurm();
  const StageOutOrder order = run_order("/t/d", "./bin/train.sh");
  CHECK(order.job == static_cast<std::uint32_t>(::getpid()));
  CHECK(order.restart == 0);
  CHECK(order.node_index == 0);
  CHECK(order.node_count == 1);
  CHECK(order.job_name == "train.sh");
  CHECK(order.uid == ::getuid());
  CHECK(order.directory == "/t/d");
  CHECK(order.threads >= 1);
  CHECK(check_targets(with_target("/o/%j-%A-%u-%x-%N-%n-%r-%%"), order));
  const Status refused = check_targets(with_target("/o/%A_%a"), order);
  REQUIRE(!refused);
  CHECK(refused.error().text().find("'/o/%A_%a': the value of %a is not known") !=
        std::string::npos);
  CHECK(refused.error().text().find("\nThis is not a task of a job array") != std::string::npos);
}

TEST_CASE("outside of Slurm a source by a task is a fault, and the advice is how to give one") {
  leave_slurm();
  const StageOutOrder order = run_order("/t/d", "x");
  StageRequest request;
  request.datasets.emplace_back().source = "/p/none-%j-%A-%n";
  CHECK(name_sources(request, order));
  request.datasets.front().source = "/p/none-%a";
  const Status refused = name_sources(request, order);
  REQUIRE(!refused);
  CHECK(refused.error().advice.starts_with("This is not a task of a job array"));
}

TEST_CASE("inside of a Slurm job they are that job's") {
  ::setenv("SLURM_JOB_ID", "4711", 1);
  ::setenv("SLURM_ARRAY_JOB_ID", "4710", 1);
  ::setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  ::setenv("SLURM_JOB_NAME", "sweep", 1);
  ::setenv("SLURM_NODEID", "2", 1);
  ::setenv("SLURM_RESTART_COUNT", "1", 1);
  const StageOutOrder order = run_order("/t/d", "x");
  leave_slurm();
  CHECK(order.job == 4711);
  CHECK(order.array_job == 4710);
  CHECK(order.array_task == 3);
  CHECK(order.job_name == "sweep");
  CHECK(order.node_index == 2);
  CHECK(order.restart == 1);
  CHECK(check_targets(with_target("/o/%A_%a"), order));
}

TEST_CASE("a run shares nothing and says so") {
  StageRequest request;
  request.datasets.resize(3);
  CHECK(share_nothing(request).empty());
  request.datasets[1].shared = true;
  request.venv = VenvItem{};
  request.venv->shared = true;
  const auto items = share_nothing(request);
  REQUIRE(items.size() == 2);
  CHECK(items[0] == SharedItem{1, ShareRole::own, "", "", "`nodestage run` keeps nothing"});
  CHECK(items[1].item == 3);
}

namespace {

std::string program(const Scratch& scratch, const std::string& name, const std::string& text) {
  std::ofstream(scratch / name) << text;
  ::chmod((scratch / name).c_str(), 0755);
  return scratch / name;
}

}  // namespace

TEST_CASE("a program's file is where execvp finds it") {
  Scratch scratch;
  const std::string file = program(scratch, "x", "#!/bin/sh\n");
  const std::string path = "/nonexistent:" + scratch.path().string() + ":/bin";
  CHECK(program_file("x", path) == file);
  CHECK(program_file(file, "") == file);
  CHECK(program_file("missing", path).empty());
  CHECK(program_file(scratch / "missing", path).empty());
  CHECK(program_file(scratch.path().string(), path).empty());
}

TEST_CASE("a script that Windows wrote is told, with the command that corrects it") {
  Scratch scratch;
  const std::string file = program(scratch, "x", "#!/bin/bash\r\necho 1\r\n");
  CHECK(has_windows_lines(file));
  CHECK(has_windows_lines(program(scratch, "env", "#!/usr/bin/env python3\r\n")));
  CHECK_FALSE(has_windows_lines(program(scratch, "good", "#!/bin/sh\necho 1\r\n")));
  CHECK_FALSE(has_windows_lines(program(scratch, "text", "1\r\n")));
  const std::string why = why_not_run(file, ENOENT).text();
  CHECK(why.starts_with(file + ": its lines end as Windows writes them"));
  CHECK(why.ends_with("\nCorrect it with: sed -i 's/\\r$//' " + file));
}

TEST_CASE("an interpreter that does not exist is named") {
  Scratch scratch;
  const std::string file = program(scratch, "x", "#! /opt/none/bin/python -u\n");
  CHECK(why_not_run(file, ENOENT)
            .text()
            .starts_with(file + ": its first line names an interpreter that does not exist here: "
                                "/opt/none/bin/python\n"));
  const std::string other = program(scratch, "elf", "\177ELF");
  CHECK(why_not_run(other, ENOENT).text().find("a program for another system") !=
        std::string::npos);
  CHECK(why_not_run(other, EACCES).text().find(": Permission denied\nIs it a program") !=
        std::string::npos);
}

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
