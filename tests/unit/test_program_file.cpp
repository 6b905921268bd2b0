#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "cli/run/run.hpp"
#include "scratch.hpp"

using namespace nodestage;

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
