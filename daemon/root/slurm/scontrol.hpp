// Scontrol: runs Slurm's own scontrol in a child, one at a time.
//
// The child is uid 0 without any capability: Slurm accepts it as root, and the kernel grants it
// nothing. Its time (slurm.answer_wait) and output are bounded. The daemon never waits for it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"
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
  ~Scontrol();

  [[nodiscard]] bool busy() const { return child_.has_value(); }
  // Call it only when not busy, as the object is when it calls on_end, once, from the loop.
  Status run(std::vector<std::string> arguments, OnEnd on_end);

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

// SlurmQuestion: asks Slurm with scontrol whether a run of a job still exists.
//
// It asks as root: with PrivateData=jobs, Slurm gives other users the same answer about a running
// job as about one that never existed.
enum class SlurmAnswer {
  gone,     // Slurm does not know this run any more, or reports that it has ended
  here,     // it waits, runs, or is about to end: an epilog is still to come
  unclear,  // an answer that shows neither, for instance because of a newline in a name
  none,     // no answer, for instance from a controller that is down; the same for other jobs
};

// Reads what `scontrol --oneliner show job JOB` printed about `run`. Names in it come from users,
// who can only deceive the daemon about their own job.
SlurmAnswer read_answer(const JobKey& run, std::string_view output);

class SlurmQuestion {
 public:
  using OnAnswer = std::function<void(SlurmAnswer)>;

  SlurmQuestion(Loop& loop, const Config& config) : scontrol_(loop, config) {}

  [[nodiscard]] bool busy() const { return scontrol_.busy(); }
  // Call it only when not busy. on_answer is called once, from the loop.
  Status ask(const JobKey& run, OnAnswer on_answer);

 private:
  Scontrol scontrol_;
};

// Finds the jobs that have a step on this node, by their slurmstepd processes alone.

// Returns the job of a slurmstepd with a command line such as "slurmstepd: [12.batch]".
std::optional<std::uint32_t> job_of_step(std::string_view command_line);

// Counts only processes of root. Never blocks on a user's process: it reads only its name.
std::set<std::uint32_t> jobs_with_steps();

// Reads what `scontrol --oneliner show job JOB` printed: MinMemoryNode, or MinMemoryCPU for each of
// that many CPUs. In bytes; 0: it says neither, or the job has all memory of the node.
std::uint64_t memory_of_job(std::uint32_t job, std::uint32_t cpus, std::string_view output);

// Reads in the same output, about the first component of a heterogeneous job, whether it has a
// batch script, and whether that may still write to the job's output. Of a job that Slurm has
// forgotten, the script is over, if it had one.
enum class BatchScript { none, runs, over, unknown };
BatchScript batch_script_of(std::uint32_t job, std::string_view output);
// And its name, which can have blanks; "": not known.
std::string name_of_job(std::uint32_t job, std::string_view output);

// JobQuestions: asks Slurm with scontrol about jobs, one after the other.
class JobQuestions {
 public:
  using OnAnswer = std::function<void(std::string_view output)>;

  JobQuestions(Loop& loop, const Config& config) : scontrol_(loop, config) {}

  // on_answer is called once, from the loop or from here, with what `scontrol --oneliner show job`
  // printed; with nothing if it cannot be run. `id`: of a job, or "10_3" of an array.
  void ask(const std::string& id, OnAnswer on_answer);

 private:
  struct Question {
    std::string id;
    OnAnswer on_answer;
  };
  void ask_next();

  Scontrol scontrol_;
  std::deque<Question> waiting_;
};

}  // namespace nodestage
