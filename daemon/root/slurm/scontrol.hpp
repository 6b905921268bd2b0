// Scontrol: runs Slurm's own scontrol, or another program of the administrators', in a child, one
// at a time.
//
// The child is uid 0 without any capability: Slurm accepts it as root, and the kernel grants it
// nothing. Its time (slurm.answer_wait) and output are bounded. The daemon never waits for it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/os/child_process.hpp"
#include "common/os/fd.hpp"
#include "common/settings/config.hpp"
#include "daemon/root/basis/loop.hpp"

namespace nodestage {

class Scontrol {
 public:
  struct Output {
    std::string text;        // stdout and stderr; empty if they exceed the bound
    bool succeeded = false;  // exit status 0
  };
  using OnEnd = std::function<void(const Output&)>;

  Scontrol(Loop& loop, const Config& config) : loop_(loop), config_(config) {}
  Scontrol(const Scontrol&) = delete;
  Scontrol& operator=(const Scontrol&) = delete;
  ~Scontrol();

  [[nodiscard]] bool busy() const { return child_.has_value(); }
  // Call it only when not busy, as the object is when it calls on_end, once, from the loop.
  Status run(std::vector<std::string> arguments, OnEnd on_end) {
    return run_program(config_.slurm.scontrol, std::move(arguments), std::move(on_end));
  }
  // Does the same with the program of that path.
  Status run_program(const std::string& program, std::vector<std::string> arguments, OnEnd on_end);

 private:
  struct Child {
    OnEnd on_end;
    ChildProcess process;
    Fd pid_fd;
    Fd output;
    std::string text;
    Loop::TimerId limit;
  };
  void kill();
  void read_output();
  void ended();
  void end_child();

  Loop& loop_;
  const Config& config_;
  std::optional<Child> child_;
};

}  // namespace nodestage
