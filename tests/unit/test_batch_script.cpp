// What a script says before it runs: directives that Slurm does not read, and login shells.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/talk/batch_script.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("directives of staging below the first command are named") {
  struct Row {
    const char* script;
    const char* warning;
  };
  const Row rows[] = {
      {"#!/bin/bash\n#SBATCH --stage-dataset=d.tar\n\n  # text\n#SBATCH --stage-out=a:b\nset -e\n",
       ""},
      {"#!/bin/bash\nset -e\n#SBATCH --stage-dataset=d.tar\n",
       "line 3 (#SBATCH --stage-dataset=d.tar) of the script has no effect: Slurm reads #SBATCH "
       "lines only above the first command, line 2 (set -e); move it below them"},
      {"#!/bin/bash\r\n#SBATCH -N1\r\n\tmodule load x\r\n#SBATCH --stage-out=a:b\r\n"
       "#SBATCH --time=1\r\n#SBATCH -n2 --stage-venv=e",
       "line 4 (#SBATCH --stage-out=a:b) of the script and 1 line below it have no effect: Slurm "
       "reads #SBATCH lines only above the first command, line 3 (\\x09module load x); move it "
       "below "
       "them"},
      {"#!/bin/sh\ntrue\n# SBATCH --stage-out=a:b\n##SBATCH --stage-out=a:b\n#SBATCH -N1\n", ""},
      {"#!/bin/bash\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --stage-out=a:b\nEOF\n", ""},
      {"", ""},
      {"true", ""}};
  for (const Row& row : rows) {
    CAPTURE(row.script);
    CHECK(ignored_directives(row.script) == row.warning);
  }
}

TEST_CASE("login shells are known by their words, or by a script's first line") {
  struct Row {
    std::vector<std::string> words;
    bool is_login;
  };
  const Row rows[] = {{{"bash", "-l"}, true},
                      {{"/bin/bash", "-il"}, true},
                      {{"bash", "-lc", "x"}, true},
                      {{"bash", "--norc", "--login"}, true},
                      {{"zsh", "-o", "nomatch", "-l"}, true},
                      {{"-bash"}, true},
                      {{"bash"}, false},
                      {{"bash", "-c", "ls -l"}, false},
                      {{"bash", "job.sh", "-l"}, false},
                      {{"bash", "--", "-l"}, false},
                      {{"ls", "-l"}, false},
                      {{}, false}};
  const Scratch scratch;
  const std::string none = scratch / "none";
  for (const Row& row : rows) {
    CAPTURE(row.words.empty() ? "" : row.words.back());
    CHECK(login_shell_note(row.words, none).empty() == !row.is_login);
  }
  const std::string script = scratch / "job.sh";
  struct Line {
    const char* text;
    bool is_login;
  };
  for (const Line& line :
       {Line{"#!/bin/bash -l\n", true}, Line{"#! /usr/bin/env -S bash --login", true},
        Line{"#!/bin/bash\n-l", false}, Line{"#!/usr/bin/env", false}, Line{"", false}}) {
    write_file(script, line.text);
    CAPTURE(line.text);
    CHECK(login_shell_note({script}, none).empty() == !line.is_login);
  }
  // Where the profile puts the environment first again.
  CHECK(login_shell_note({"bash", "-l"}, script).empty());
}
