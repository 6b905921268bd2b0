// Other programs, Slurm's mostly, run for what they print: no shell, nothing to read, bounded in
// time and output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// A user that root can become.
struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};
Result<Account> account_of(uid_t uid);

struct Program {
  std::vector<std::string> words;  // the first is looked for in PATH
  // All of the program's environment; nothing: this process's.
  std::optional<std::vector<std::string>> environment;
  std::optional<Account> account;     // with all its groups; nothing: this process's
  std::size_t most_output = 4 << 20;  // bytes; what comes beyond is read and dropped
};

struct ProgramEnd {
  int code = 0;       // as a shell has it
  bool late = false;  // ended for its time
  std::string output;
  std::string errors;

  // It was not found, or this process could not run it.
  [[nodiscard]] bool is_not_run() const { return code == 126 || code == 127; }
};

inline constexpr std::chrono::seconds k_program_limit{20};

// In the order of `programs`, a few of them at a time. Each has a session of its own and is ended,
// by SIGTERM and then by SIGKILL, at its limit and when this process dies.
std::vector<ProgramEnd> run_programs(const std::vector<Program>& programs,
                                     std::chrono::seconds limit = k_program_limit);
ProgramEnd run_program(const Program& program, std::chrono::seconds limit = k_program_limit);

}  // namespace nodestage
