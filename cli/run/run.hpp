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

// Its own exit codes; others are COMMAND's, or 128 + n if signal n stopped COMMAND or the staging.
inline constexpr int k_not_delivered = 123;  // COMMAND returned 0, and a result was not delivered
inline constexpr int k_not_run = 125;        // wrong arguments, or the staging failed
inline constexpr int k_not_executable = 126;
inline constexpr int k_not_found = 127;

// Does the work of a whole job: creates a private directory, stages, runs COMMAND with the job's
// environment, stages out, and removes the directory. Refuses to run as root.
int run_job(const RunArguments& arguments);

}  // namespace nodestage
