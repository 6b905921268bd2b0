// Builder: the process below the worker that runs other programs (python, pip, uv, a shell for
// modules), one after another. The worker itself starts none: it has threads, and a sandbox in
// which no program can be started.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"

namespace nodestage {

// The variables of a build, as NAME=VALUE, and the files of settings to which they lead.

using BuildVariables = std::vector<std::string>;

// Returns "NAME" of "NAME=VALUE".
std::string_view name_of_variable(std::string_view variable);
// Returns the value of a variable; "" if there is none.
std::string value_in(const BuildVariables& variables, std::string_view name);
void set_variable(BuildVariables& variables, const std::string& name, const std::string& value);

// Returns where pip looks for its settings, the file that counts most at the end. They need not
// exist. A site's settings in the interpreter's own directory are not among them: a new environment
// has none. `home` is the user's own, whatever HOME is.
std::vector<std::string> pip_settings(const BuildVariables& variables, const std::string& home);
// Returns where uv looks. `directory` is the requirements file's, with a '/'.
std::vector<std::string> uv_settings(const BuildVariables& variables, const std::string& home,
                                     const std::string& directory);

// No string may contain a NUL.
struct BuildCommand {
  std::vector<std::string> arguments;    // the first one is the program's path
  std::vector<std::string> environment;  // all of it
  std::string directory;                 // where it runs
  std::string log;                       // its output is appended to this file, created with 0600
  std::string output;                    // if not empty, its standard output goes here instead
};

// Movable. One thread at a time may call run().
class Builder {
 public:
  using Clock = std::chrono::steady_clock;

  // Forks the builder, which enters enter_build_sandbox(job_fd) and takes that umask. No other
  // thread may run yet. The builder, with everything that it started, exits when this object is
  // destroyed or this process exits. SIGPIPE is ignored from here on. The other functions use no
  // system calls but read, write, poll, and close, so they work in the worker's sandbox, which is
  // entered later.
  static Result<Builder> start(int job_fd, mode_t umask);
  Builder(Builder&&) = default;
  Builder& operator=(Builder&&) = delete;
  ~Builder();

  // Returns the sandbox of the builder and everything that it starts.
  [[nodiscard]] const Sandbox& sandbox() const { return sandbox_; }

  // Runs a command. Returns the exit code, 128 + N after signal N, or 127 if `arguments[0]` cannot
  // be started: the log says why. The command and everything that it started are killed early for
  // these faults: stopped(); a fault of `check`, which is called every second; ETIMEDOUT at the
  // deadline. run() must not be called again after that.
  Result<int> run(const BuildCommand& command, Clock::time_point deadline,
                  const std::atomic<bool>& stop, const std::function<Status()>& check);

 private:
  Builder(Fd commands, Fd answers, Sandbox sandbox)
      : commands_(std::move(commands)),
        answers_(std::move(answers)),
        sandbox_(std::move(sandbox)) {}
  void end();

  Fd commands_;  // pipes; the builder exits when this one is closed
  Fd answers_;
  Sandbox sandbox_;
};

}  // namespace nodestage
