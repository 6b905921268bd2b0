#include "cli/status/status.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <variant>

#include "cli/base/conversation.hpp"
#include "cli/base/verbs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/os/file.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_quiet_interval{2};
constexpr const char* k_what_a_name_is =
    "NAME is the <NAME> of NODESTAGE_DATASET_<NAME>, or a path below $SLURM_TMPDIR.";

int converse_until_staged(const WaitArguments& arguments, std::uint32_t job) {
  const auto voice_of = [](Speech speech) {
    return TaskVoice(speech, STDERR_FILENO, obeys_escapes(STDERR_FILENO), node_name(),
                     k_line_interval);
  };
  TaskVoice voice = voice_of(arguments.quiet ? Speech::silent : Speech::aloud);
  const auto interval =
      arguments.quiet ? std::chrono::milliseconds(k_quiet_interval) : voice.report_interval();
  const Await ask{job, static_cast<std::uint32_t>(interval.count()), arguments.names};
  return JobConversation({"wait", "a job with --stage-dataset or --stage-out", k_what_a_name_is},
                         arguments.socket, job, voice)
      .run(ask, [&](const Message& answer) {
        if (const auto* ready = std::get_if<Ready>(&answer)) {
          for (const std::string& line : ready->lines) voice.say(line);
          return 0;
        }
        const auto* failed = std::get_if<Failed>(&answer);
        if (failed == nullptr) return daemon_fault("nodestaged gave an unexpected answer");
        voice_of(Speech::aloud).say(failed->cause);
        return k_fault;
      });
}

bool is_staged_here(const std::string& name) {
  static constexpr std::string_view k_prefix = "NODESTAGE_DATASET_";
  const std::string variable = variable_name(name);
  const bool is_whole = variable.starts_with(k_prefix);
  if (std::getenv((is_whole ? variable : std::string(k_prefix) + variable).c_str()) != nullptr)
    return true;
  const char* directory = std::getenv("SLURM_TMPDIR");
  const bool is_path = name.starts_with('/');
  return directory != nullptr &&
         ::access((is_path ? name : std::string(directory) + "/" + name).c_str(), F_OK) == 0;
}

// `nodestage run` has already waited for all of them.
int wait_in_run(const WaitArguments& arguments) {
  for (const std::string& name : arguments.names) {
    if (is_staged_here(name)) continue;
    return fault("'" + name + "' was not staged: it failed, or no dataset has that name",
                 "The output of `nodestage run` before the command started says which; " +
                     std::string(k_what_a_name_is));
  }
  return 0;
}

}  // namespace

int wait_for_datasets(const WaitArguments& arguments) {
  if (std::getenv("NODESTAGE_RUN") != nullptr) return wait_in_run(arguments);
  const std::uint32_t job = job_of_environment();
  if (job == 0) return outside_of_a_job();
  if (arguments.names.size() > k_max_await_names) return too_many_names(k_max_await_names);
  for (const std::string& name : arguments.names) {
    if (name.empty() || name.size() > k_max_await_name_bytes)
      return wrong_usage("'" + name + "' is not the name of a dataset", k_what_a_name_is);
  }
  return converse_until_staged(arguments, job);
}

namespace {

// The pause between two queries. Each query through Slurm is a step on every node.
constexpr std::chrono::seconds k_pause_here{2};
constexpr std::chrono::seconds k_pause_by_slurm{10};

constexpr const char* k_whose =
    "`nodestage status` shows your own jobs; for root, it shows all jobs.";

Result<StatusReport> ask_daemon_here(const std::string& socket, std::uint32_t job) {
  StatusReport report;
  std::string refusal;
  const auto take = [&](const Message& message) -> std::optional<int> {
    if (const auto* row = std::get_if<StatusRow>(&message)) {
      report.jobs.push_back({*row, {}});
      return {};
    }
    if (const auto* item = std::get_if<StatusItem>(&message)) {
      if (!report.jobs.empty()) report.jobs.back().items.push_back(*item);
      return {};
    }
    if (const auto* refused = std::get_if<Refused>(&message)) refusal = refused->what;
    return 0;
  };
  TRY(exchange(socket, StatusQuery{job}, take));
  if (!refusal.empty()) return Error{EPERM, refusal};
  return report;
}

// The code of the faults below is the exit code.

Result<StatusReport> ask_the_nodes(const StatusArguments& arguments, const SlurmJob& job) {
  auto report = ask_nodes(job, arguments.socket);
  if (!report)
    return Error{k_fault, report.error().text(),
                 "On a node of the job, `nodestage status --here` works without Slurm."};
  if (report->jobs.empty() && report->faults.empty())
    return Error{
        k_no_such_job,
        "nodestaged knows nothing of job " + arguments.job + " on its nodes (" + job.nodes + ")",
        "It was submitted without a --stage- option, or it is just ending."};
  report->slurm_state = job.state;
  return report;
}

// `error` has an errno value as its code.
Error not_found(const Error& error) {
  switch (error.code) {
    case ENOENT:
      return {k_no_such_job, error.what,
              "Slurm soon forgets a job that has ended. The result of its staging is in the job's "
              "own output; `nodestage report JOBID --node=NODE` shows what its nodes recorded."};
    case EINVAL:
      return {k_wrong_usage, error.what, "Name one of them as squeue lists it: JOBID_TASK."};
    default:
      return {k_fault, error.what,
              "squeue must work here. On a node of the job, `nodestage status --here` works "
              "without Slurm."};
  }
}

StatusReport ended(const StatusArguments& arguments, const SlurmJob& job) {
  StatusReport report;
  report.slurm_state = job.state;
  report.end = end_of_job(job, arguments.job);
  return report;
}

// A job can end while its nodes are asked: then Slurm refuses the steps, or no daemon knows it.
Result<StatusReport> ask_while_it_runs(const StatusArguments& arguments, const SlurmJob& job) {
  auto seen = ask_the_nodes(arguments, job);
  if (seen && seen->faults.empty()) return seen;
  const auto now = find_job(arguments.job);
  if (now && time_of(*now) == JobTime::over) return ended(arguments, *now);
  return seen;
}

Result<StatusReport> ask_slurm(const StatusArguments& arguments) {
  const auto job = find_job(arguments.job);
  if (!job) return not_found(job.error());
  if (::geteuid() != 0 && job->uid != ::geteuid())
    return Error{k_no_such_job, "job " + arguments.job + " is not yours", k_whose};
  if (time_of(*job) == JobTime::over) return ended(arguments, *job);
  // Slurm starts no step in a suspended job, so its nodes cannot be asked.
  if (time_of(*job) == JobTime::running && job->state != k_suspended)
    return ask_while_it_runs(arguments, *job);
  StatusReport report;
  report.slurm_state = job->state;
  report.reason = job->reason;
  return report;
}

Result<StatusReport> ask_only_here(const StatusArguments& arguments) {
  const auto job = static_cast<std::uint32_t>(std::strtoul(arguments.job.c_str(), nullptr, 10));
  auto report = ask_daemon_here(arguments.socket, job);
  if (!report && is_daemon_away(report.error()))
    return Error{k_fault, report.error().text(),
                 "A login node has no nodestaged: name the job, `nodestage status JOBID`. On a "
                 "compute node, tell your administrators (systemctl status nodestaged)."};
  if (!report)
    return Error{k_fault, report.error().text(),
                 "Tell your administrators (systemctl status nodestaged)."};
  if (report->jobs.empty() && !arguments.job.empty())
    return Error{k_no_such_job,
                 "nodestaged knows no job " + arguments.job + " of yours on this node", k_whose};
  return report;
}

Result<StatusReport> look(const StatusArguments& arguments) {
  // A task of an array has its own id, which only Slurm knows.
  if (arguments.job.find_first_of("_+") != std::string::npos) return ask_slurm(arguments);
  auto here = ask_only_here(arguments);
  return here || arguments.job.empty() || arguments.here ? here : ask_slurm(arguments);
}

class Display {
 public:
  explicit Display(const StatusArguments& arguments)
      : arguments_(arguments), redraws_(arguments.watch && obeys_escapes(STDOUT_FILENO)) {}

  void show(const StatusReport& report) {
    if (arguments_.json) {
      const auto form = arguments_.watch ? JsonForm::one_line : JsonForm::indented;
      return write(to_json(report, form) + "\n");
    }
    const Owners owners = ::geteuid() == 0 ? Owners::name : Owners::hide;
    const Screen screen = redraws_ ? screen_size() : Screen{0, k_any_width};
    const std::string text =
        status_text(report, arguments_.job, owners, shows_colour(), screen.columns);
    if (redraws_) return redraw(text, screen.lines);
    write(std::exchange(is_first_, false) ? text : "\n" + text);
  }

 private:
  static void write(const std::string& text) { static_cast<void>(!write_all(STDOUT_FILENO, text)); }

  struct Screen {
    std::size_t lines;
    std::size_t columns;
  };

  static Screen screen_size() {
    winsize size{};
    static_cast<void>(::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size));
    return {size.ws_row > 1 ? size.ws_row - 1U : 23U,
            size.ws_col > 0 ? size.ws_col : std::size_t{80}};
  }

  // Draws over the previous text, with as many lines as there is room for; cuts long lines.
  void redraw(const std::string& text, std::size_t room) {
    std::string screen =
        std::exchange(is_first_, false) ? "\x1b[2J\x1b[H\x1b[?7l" : "\x1b[H\x1b[?7l";
    for (const char c : text) {
      if (c == '\n') screen += "\x1b[K";
      screen += c;
      if (c == '\n' && --room == 0) break;
    }
    write(screen + "\x1b[J\x1b[?7h");
  }

  const StatusArguments& arguments_;
  bool redraws_;
  bool is_first_ = true;
};

// `--here` only passes the daemon's answer on, to a `status` on another host, too.
int end_of(const StatusReport& report, const StatusArguments& arguments) {
  if (report.faults.empty())
    return arguments.job.empty() || arguments.here || !has_failed(report) ? 0 : k_fault;
  return fault("not every node of the job has reported its state",
               "sinfo -n NODE says whether a node is up; for its nodestaged ask your "
               "administrators (systemctl status nodestaged).");
}

}  // namespace

int show_status(const StatusArguments& arguments) {
  if (!arguments.job.empty() && !is_job_id(arguments.job))
    return wrong_usage("'" + arguments.job + "' is not a job id",
                       "JOBID is a number; for a task of an array, JOBID_TASK.");
  Display display(arguments);
  for (;;) {
    const auto report = look(arguments);
    if (!report) {
      fault(report.error().what, report.error().advice);
      return report.error().code;
    }
    display.show(*report);
    if (!arguments.watch || !is_moving(*report)) return end_of(*report, arguments);
    const bool by_slurm = !report->slurm_state.empty();
    const std::chrono::milliseconds pause = by_slurm ? k_pause_by_slurm : k_pause_here;
    ::poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

}  // namespace nodestage
