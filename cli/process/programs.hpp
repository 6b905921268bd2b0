// Runs other programs, mostly Slurm's, for their output: without a shell and without input, with
// limits of time and output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// A user to run a program as; needs root.
struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};
Result<Account> account_of(uid_t uid);

struct Program {
  std::vector<std::string> words;  // the first is searched for in PATH
  // The program's whole environment; nullopt: this process's.
  std::optional<std::vector<std::string>> environment;
  std::optional<Account> account;     // with all its groups; nullopt: this process's
  std::size_t most_output = 4 << 20;  // bytes; what comes after them is read and dropped
  int descriptor = -1;                // borrowed; the program gets it as k_program_fd; -1: none
  enum class Group {
    callers,
    own
  };  // of processes; Ctrl-C on the terminal does not reach an own one
  Group group = Group::callers;
};

struct ProgramEnd {
  int code = 0;       // as in a shell
  bool late = false;  // killed at its time limit
  std::string output;
  std::string errors;   // k_most_errors bytes at most
  bool is_cut = false;  // `output` is not all of it

  // The program was not found or could not be run.
  [[nodiscard]] bool is_not_run() const { return code == 126 || code == 127; }
};

inline constexpr int k_program_fd = 3;
inline constexpr std::chrono::seconds k_program_limit{20};
inline constexpr std::size_t k_programs_at_once = 8;
inline constexpr std::size_t k_most_errors = 64 << 10;

// Runs the programs, `at_once` at a time; the results are in the order of `programs`. Each program
// has its own session and is killed, by SIGTERM and then by SIGKILL, at its limit and when this
// process dies.
std::vector<ProgramEnd> run_programs(const std::vector<Program>& programs,
                                     std::chrono::seconds limit = k_program_limit,
                                     std::size_t at_once = k_programs_at_once);
ProgramEnd run_program(const Program& program, std::chrono::seconds limit = k_program_limit);

// Why srun, with that limit, brought no answer of our command on a node: that command's message,
// else srun's first line. `most` bytes of either, printable.
std::string why_srun_failed(const ProgramEnd& end, std::chrono::seconds limit, std::size_t most);

}  // namespace nodestage
