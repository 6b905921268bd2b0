// nodestage run [options] -- COMMAND...
#pragma once

#include <string>
#include <vector>

#include "cli/base/request_texts.hpp"

namespace nodestage {

struct RunArguments {
  RequestTexts texts;
  std::string tmpdir;  // empty: $TMPDIR, else /tmp
  std::string worker;  // the program; empty: this installation's
  std::vector<std::string> command;
};

// Exit codes of its own; else COMMAND's, or 128 + n when signal n ended it or the staging.
inline constexpr int k_not_delivered = 123;  // COMMAND ended with 0, and a result is kept
inline constexpr int k_not_run = 125;        // wrong arguments, or the staging failed
inline constexpr int k_not_executable = 126;
inline constexpr int k_not_found = 127;

// The whole life of a job, by this process: a private directory, staging, COMMAND with the job's
// environment, stage-out, cleaning. Refuses root.
int run_job(const RunArguments& arguments);

}  // namespace nodestage
