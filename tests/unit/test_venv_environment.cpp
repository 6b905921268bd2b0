#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>

#include "common/request/job_environment.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("venv environment: PATH with the environment first, once") {
  CHECK(path_with_first("/usr/bin:/bin", "/e/bin") == "/e/bin:/usr/bin:/bin");
  CHECK(path_with_first("/usr/bin:/e/bin:/bin:/e/bin", "/e/bin") == "/e/bin:/usr/bin:/bin");
  CHECK(path_with_first("", "/e/bin") == "/e/bin");
  CHECK(path_without("/e/bin", "/e/bin").empty());
  CHECK(path_without("/e/bin:/e/bin2", "/e/bin") == "/e/bin2");
  CHECK(path_without(":/a:", "/e/bin") == ":/a:");
}

TEST_CASE("venv environment: what a build gets of a submission") {
  const char* const names[] = {"PIP_FIND_LINKS", "PIP_INDEX_URL", "RSNT_ARCH", "EBROOTA", "OTHER"};
  for (const char* name : names) ::setenv(name, "v", 1);
  const auto usual = environment_for_build({});
  CHECK(has(usual, "PIP_FIND_LINKS=v"));
  CHECK_FALSE(has(usual, "PIP_INDEX_URL=v"));  // may hold a password
  CHECK_FALSE(has(usual, "RSNT_ARCH=v"));
  const auto more = environment_for_build({"RSNT_ARCH", "EB*", "*"});
  check_has(more, {"RSNT_ARCH=v", "EBROOTA=v"});
  CHECK_FALSE(has(more, "OTHER=v"));
  for (const char* name : names) ::unsetenv(name);
}

TEST_CASE("venv environment: the first python of PATH") {
  const Scratch scratch;
  for (const char* name : {"a", "b"}) ::mkdir((scratch / name).c_str(), 0700);
  const std::string path = "relative:" + (scratch / "a") + ":" + (scratch / "b");
  CHECK(python_in(path).empty());
  std::ofstream(scratch / "a/python3") << "no program";
  std::ofstream(scratch / "b/python3") << "#!/bin/sh\n";
  ::chmod((scratch / "b/python3").c_str(), 0700);
  CHECK(python_in(path) == scratch / "b/python3");
  std::ofstream(scratch / "a/python") << "#!/bin/sh\n";
  ::chmod((scratch / "a/python").c_str(), 0700);
  CHECK(python_in(path) == scratch / "b/python3");
  CHECK(program_in_path(path, "python") == scratch / "a/python");
  CHECK(program_in_path(path, "python3.9").empty());
}

TEST_CASE("submit environment: a job that a staged job submits has left its environment") {
  ::setenv("NODESTAGE_JOBID", "7", 1);
  ::setenv("NODESTAGE_VENV", "/l/a.7/env", 1);
  ::setenv("VIRTUAL_ENV", "/l/a.7/env", 1);
  const std::string before = ::getenv("PATH");
  ::setenv("PATH", ("/l/a.7/env/bin:" + before).c_str(), 1);
  drop_inherited_variables(SubmitFor::allocation);
  CHECK(::getenv("VIRTUAL_ENV") == nullptr);
  CHECK(::getenv("PATH") == before);
  ::setenv("NODESTAGE_JOBID", "7", 1);
  ::setenv("NODESTAGE_VENV", "/l/a.7/env", 1);
  ::setenv("VIRTUAL_ENV", "/home/a/own", 1);
  drop_inherited_variables(SubmitFor::allocation);
  CHECK(::getenv("VIRTUAL_ENV") == std::string("/home/a/own"));
  ::unsetenv("VIRTUAL_ENV");
}
