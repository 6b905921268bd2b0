#include "cli/run/run.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "cli/base/command_process.hpp"
#include "cli/base/conversation.hpp"
#include "cli/base/private_directory.hpp"
#include "cli/base/signals.hpp"
#include "cli/base/worker_child.hpp"
#include "cli/run/kept_results.hpp"
#include "cli/run/run_order.hpp"
#include "common/os/terminal.hpp"
#include "common/request/submission.hpp"
#include "common/talk/summary.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_line_interval{10};
constexpr std::chrono::hours k_no_hurry{1};

int not_run(const std::string& what, const std::string& to_do) {
  fault(what, to_do);
  return k_not_run;
}

std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "signal " + std::to_string(signal);
  }
}

class Run {
 public:
  Run(const RunArguments& arguments, const StageRequest& request, WorkerOrder order,
      PrivateDirectory& directory, Signals& signals)
      : arguments_(arguments),
        request_(request),
        order_(std::move(order)),
        directory_(directory),
        signals_(signals),
        voice_(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), order_.node,
               k_line_interval) {}

  int run() {
    if (const auto code = stage()) return clean(*code);
    const auto code = run_command();
    if (!has_run_) return clean(*code);
    if (!code || !stage_out(*code)) return keep(code);
    return clean(*code);
  }

 private:
  // Returns an exit code if COMMAND must not run.
  std::optional<int> stage() {
    environment_.push_back({"SLURM_TMPDIR", directory_.path()});
    environment_.push_back({"NODESTAGE_RUN", std::to_string(::getpid())});
    if (request_.datasets.empty() && !request_.venv) return {};
    const auto status = work(WorkerTask::stage);
    if (signal_ != 0) {
      voice_.say("stopped by " + signal_name(signal_) + " while staging; nothing is left behind");
      return 128 + signal_;
    }
    if (!status) {
      voice_.say(status.error().text());
      return k_not_run;
    }
    for (const std::string& line : summary_lines(*status)) voice_.say(line);
    set_environment(status->environment);
    return {};
  }

  void set_environment(const std::vector<std::string>& variables) {
    for (const std::string& variable : variables) {
      const std::string name = settable_name(variable);
      if (!name.empty()) environment_.push_back({name, variable.substr(name.size() + 1)});
    }
    const std::string venv = venv_in(variables);
    if (venv.empty()) return;
    const char* path = std::getenv("PATH");
    for (auto& change : activation_of(venv, path == nullptr ? "" : path))
      environment_.push_back(std::move(change));
  }

  // COMMAND's exit code; nullopt if a second signal stopped everything.
  std::optional<int> run_command() {
    auto process = CommandProcess::start(arguments_.command, environment_, signals_);
    if (!process) {
      const bool is_missing = process.error().code == ENOENT;
      voice_.say("the command cannot be run: " + process.error().text() +
                 (is_missing
                      ? "\nCheck its name and PATH; for a program in this directory, write ./NAME."
                      : "\nIs it a program, and may you execute it? (chmod +x)"));
      return is_missing ? k_not_found : k_not_executable;
    }
    has_run_ = true;
    bool was_asked = false;
    while (!process->has_ended()) {
      const auto signal = signals_.next(k_no_hurry);
      if (!signal || *signal == SIGCHLD) continue;
      if (is_deadly(*signal) && std::exchange(was_asked, true)) {
        signal_ = *signal;
        process->signal(SIGKILL);
      } else {
        process->signal(*signal);
      }
    }
    if (signal_ != 0) return {};
    return process->code();
  }

  // Whether everything was delivered.
  bool stage_out(int code) {
    if (request_.outputs.empty()) return true;
    order_.outcome = code == 0 ? JobOutcome::success : JobOutcome::failure;
    const auto status = work(WorkerTask::stage_out);
    if (!status && signal_ == 0) voice_.say(status.error().text());
    if (!status) return false;
    for (const std::string& line : delivery_lines(*status)) voice_.say(line);
    return status->phase == WorkerPhase::done;
  }

  // Keeps what was not delivered. `code`: nullopt if signal_ stopped COMMAND.
  int keep(std::optional<int> code) {
    voice_.clear();
    if (signal_ != 0) {
      code = 128 + signal_;
      voice_.say("stopped by " + signal_name(signal_));
    }
    if (order_.outcome == JobOutcome::unknown) order_.outcome = JobOutcome::failure;
    const auto kept = kept_results(request_, order_.outcome, directory_.fd());
    if (kept.empty()) return clean(*code);
    voice_.say("results were not delivered: they are kept in " + directory_.path() + "\n" +
               how_to_copy(kept, directory_.path()));
    directory_.keep();
    return *code == 0 ? k_not_delivered : *code;
  }

  int clean(int code) {
    if (const Status removed = directory_.remove(); !removed) {
      voice_.say("the directory could not be removed: " + removed.error().text() +
                 "\nRemove it with: rm -rf " + shell_word(directory_.path()));
    }
    return code;
  }

  // The worker's final status; or a fault in words for the user, or with signal_ set.
  Result<WorkerStatus> work(WorkerTask task) {
    order_.task = task;
    TRY_ASSIGN(const std::string text, request_text(request_));
    const std::string program = arguments_.worker.empty() ? worker_program() : arguments_.worker;
    auto worker = WorkerChild::start({program, order_, text, directory_.fd()});
    if (!worker) {
      return Error{0, "nodestage-worker cannot be started: " + worker.error().text(),
                   "Is nodestage installed completely? The worker's path, relative to this "
                   "command, is ../libexec/nodestage."};
    }
    if (!follow(*worker)) return Error{EINTR, "ended"};
    TRY_ASSIGN(WorkerStatus status, worker->status());
    const bool is_told = status.phase == WorkerPhase::done ||
                         (status.phase == WorkerPhase::failed && task == WorkerTask::stage_out);
    if (is_told) return status;
    if (!status.cause.empty()) return Error{0, status.cause};
    return Error{0, "nodestage-worker failed: " + worker->last_words(),
                 "Try again; if it happens again, tell your administrators."};
  }

  // False if a signal stopped it.
  bool follow(WorkerChild& worker) {
    const auto begun = Clock::now();
    while (!worker.has_ended()) {
      const auto signal = signals_.next(voice_.report_interval());
      if (signal && is_deadly(*signal)) {
        worker.kill();
        signal_ = *signal;
        voice_.clear();
        return false;
      }
      if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
      if (!signal) show(worker, begun);
    }
    voice_.clear();
    return true;
  }

  void show(const WorkerChild& worker, Deadline begun) {
    const auto status = worker.status();
    if (!status) return;
    Progress progress = progress_of(*status, Counted::all);
    progress.elapsed_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun).count());
    voice_.progress(progress);
  }

  const RunArguments& arguments_;
  const StageRequest& request_;
  WorkerOrder order_;
  PrivateDirectory& directory_;
  Signals& signals_;
  TaskVoice voice_;
  std::vector<VariableChange> environment_;  // of COMMAND
  int signal_ = 0;                           // the signal that stopped this; 0: none
  bool has_run_ = false;
};

Status check(const StageRequest& request, const WorkerOrder& order) {
  TRY(check_targets(request, order));
  const auto text = request_text(request);
  if (!text) return text.error();
  if (!request.venv || is_venv_path(order.directory)) return {};
  return Error{EINVAL,
               "a virtual environment cannot be in " + printable(order.directory) +
                   ": its path would contain a quote, '$', '`', ':' or '\\'",
               "Name another directory: --tmpdir=DIR"};
}

}  // namespace

int run_job(const RunArguments& arguments) {
  if (::geteuid() == 0)
    return not_run("refuses to run as root: data is staged with an ordinary user's rights",
                   "Run it as the user who owns the data: sudo -u USER nodestage run ...");
  if (arguments.command.empty())
    return not_run("no command is given",
                   "Write it after --, for example: nodestage run --stage-dataset=data.tar -- ls");
  auto request = to_request(arguments.texts);
  if (!request) return not_run(request.error().text(), "`man 7 nodestage` describes every key.");
  for (DatasetItem& item : request->datasets) item.async = false;  // nothing could ask for it later
  auto signals = Signals::open();
  if (!signals) return not_run(signals.error().text(), "Try again.");
  auto directory = PrivateDirectory::make(arguments.tmpdir);
  if (!directory)
    return not_run(directory.error().text(),
                   "Name a directory of yours with enough space: --tmpdir=DIR");
  WorkerOrder order = run_order(directory->path(), arguments.command.front());
  order.shared = share_nothing(*request);
  if (const Status checked = check(*request, order); !checked) {
    const Error& error = checked.error();
    return not_run(error.what, error.advice.empty()
                                   ? "Change the options so that they fit together."
                                   : error.advice);
  }
  leave_staged_job();
  return Run(arguments, *request, order, *directory, *signals).run();
}

}  // namespace nodestage
