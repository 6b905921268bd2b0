#include "cli/run/run.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "cli/base/conversation.hpp"
#include "cli/base/verbs.hpp"
#include "cli/process/command_process.hpp"
#include "cli/process/worker_child.hpp"
#include "cli/run/image_mounts.hpp"
#include "cli/run_dirs/private_directory.hpp"
#include "common/os/child.hpp"
#include "common/request/submission.hpp"
#include "common/talk/batch_script.hpp"
#include "common/talk/summary.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/out/job_output.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_turn_interval{100};
constexpr const char* k_memory_parent = "/dev/shm";  // for items with in=memory

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

bool uses_memory(const StageRequest& request) {
  return std::any_of(request.datasets.begin(), request.datasets.end(),
                     [](const auto& item) { return item.storage == Storage::memory; });
}

class Run {
 public:
  Run(const RunArguments& arguments, const StageRequest& request, const std::string& text,
      StageOutOrder order, PushDirectory& push_directory, PrivateDirectory& directory,
      Signals& signals)
      : arguments_(arguments),
        request_(request),
        text_(text),
        order_(std::move(order)),
        push_directory_(push_directory),
        directory_(directory),
        signals_(signals),
        voice_(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), order_.node,
               k_line_interval) {}

  int run() {
    if (const Status recorded = record(); !recorded) {
      voice_.say(recorded.error().text());
      return clean(k_not_run);
    }
    if (const auto code = clear_earlier()) return clean(*code);
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
    const auto status = work();
    if (signal_ != 0) {
      voice_.say("stopped by " + signal_name(signal_) + " while staging; nothing is left behind");
      return 128 + signal_;
    }
    if (!status) {
      voice_.say(status.error().text());
      return k_not_run;
    }
    for (const std::string& line : summary_lines(*status)) voice_.say(line);
    order_.staged_ns = staged_ns(*status);
    if (const Status noted = push_directory_.set_order(order_); !noted) {
      voice_.say(noted.error().text());
      return k_not_run;
    }
    set_environment(status->environment);
    return {};
  }

  // For `nodestage push`, and for the next run if this one is killed.
  Status record() {
    TRY(push_directory_.record(order_, text_, program(), directory_.fd()));
    if (!request_.outputs.empty())
      environment_.push_back({k_push_directory_variable, push_directory_.path()});
    return {};
  }

  // An exit code if a signal stopped it.
  std::optional<int> clear_earlier() {
    std::set<std::string> parents = {k_memory_parent};
    if (auto parent = private_parent(arguments_.tmpdir)) parents.insert(std::move(*parent));
    for (const std::string& parent : parents)
      clear_dead_runs(
          parent, [this](const std::string& what) { voice_.say(what); },
          [this] { return is_asked_to_stop(); });
    if (signal_ == 0) return {};
    voice_.say("stopped by " + signal_name(signal_) +
               " before the command; what an earlier `nodestage run` left may still be there");
    return 128 + signal_;
  }

  // Whether a deadly signal has come, now or before.
  bool is_asked_to_stop() {
    const auto signal = signals_.next(std::chrono::milliseconds(0));
    if (signal && is_deadly(*signal)) signal_ = *signal;
    if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
    return signal_ != 0;
  }

  void set_environment(const std::vector<std::string>& variables) {
    for (const std::string& variable : variables) {
      const std::string name = settable_name(variable);
      if (!name.empty()) environment_.push_back({name, variable.substr(name.size() + 1)});
    }
    const std::string venv = venv_in(variables);
    if (venv.empty()) return;
    for (auto& change : activation_of(venv, own_variable("PATH")))
      environment_.push_back(std::move(change));
    if (const std::string note = login_shell_note(arguments_.command); !note.empty())
      voice_.say(note);
  }

  // COMMAND's exit code; nullopt if a second signal stopped everything.
  std::optional<int> run_command() {
    auto process = CommandProcess::start(arguments_.command, environment_, signals_);
    if (!process) return not_started(process.error());
    has_run_ = true;
    TimedPushes pushes(
        request_, &push_directory_, directory_.fd(),
        [this](const std::string& text) { voice_.say(text); }, Clock::now());
    bool was_asked = false;
    while (!process->has_ended()) {
      pushes.step(Clock::now());
      note_images();
      const auto signal = signals_.next(pushes.patience(Clock::now()));
      if (!signal || *signal == SIGCHLD) continue;
      if (is_deadly(*signal) && std::exchange(was_asked, true)) {
        signal_ = *signal;
        process->signal(SIGKILL);
      } else {
        process->signal(*signal);
      }
    }
    note_images();
    images_.reset();
    if (signal_ != 0) return {};
    note_windows_lines(process->code());
    return process->code();
  }

  void note_images() {
    if (const auto why = images_ ? images_->why_ended() : std::nullopt)
      voice_.say("a mounted image can no longer be read: " + why->text());
  }

  int not_started(const Error& error) {
    const std::string file = command_file();
    if (file.empty() && error.code == ENOENT) {
      voice_.say(Error{error.code, "the command cannot be run: " + error.what,
                       "Check its name and PATH; for a program in this directory, write ./NAME."}
                     .text());
      return k_not_found;
    }
    voice_.say("the command cannot be run: " +
               why_not_run(file.empty() ? arguments_.command.front() : file, error.code).text());
    return k_not_executable;
  }

  // Of "#!/usr/bin/env bash" with a carriage return, the message of env is hard to understand.
  void note_windows_lines(int code) {
    const std::string file = command_file();
    if (code == 0 || file.empty() || !has_windows_lines(file)) return;
    voice_.say("note: " + why_not_run(file, ENOENT).text());
  }

  // "" if there is none.
  [[nodiscard]] std::string command_file() const {
    std::string path = own_variable("PATH");
    for (const auto& [name, value] : environment_) {
      if (name == "PATH" && value) path = *value;
    }
    return program_file(arguments_.command.front(), path);
  }

  // Whether everything was delivered.
  bool stage_out(int code) {
    if (request_.outputs.empty()) return true;
    order_.outcome = code == 0 ? JobOutcome::success : JobOutcome::failure;
    const auto status = deliver();
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
    const JobTree tree(directory_.fd(), directory_.path());
    auto kept = kept_results(request_, order_, tree);
    const int undelivered = *code == 0 ? k_not_delivered : *code;
    if (kept.empty()) return clean(undelivered);
    // What was staged can be staged again. If it cannot be dropped, it stays.
    const StagedData staged(request_, order_, directory_.fd());
    static_cast<void>(!drop_staged(request_, tree, staged));
    if (need_the_rest(kept, tree)) kept.clear();
    voice_.say("results were not delivered: they are kept in " + directory_.path() + "\n" +
               how_to_copy(kept, directory_.path()));
    directory_.keep();
    return undelivered;
  }

  int clean(int code) {
    if (const Status removed = directory_.remove(); !removed) {
      voice_.say(Error{0, "the directory could not be removed: " + removed.error().what,
                       "Remove it with: rm -rf " + shell_word(directory_.path())}
                     .text());
    }
    return code;
  }

  // The worker's final status; or a fault in words for the user, or with signal_ set.
  Result<WorkerStatus> work() {
    StageOrder order;
    static_cast<NamedOrder&>(order) = order_;
    order.shared = share_nothing(request_);
    if (uses_memory(request_)) {
      TRY_ASSIGN(PrivateDirectory memory,
                 PrivateDirectory::make(PrivateKind::memory, k_memory_parent));
      memory_.emplace(std::move(memory));
      order.memory.directory = memory_->path();
    }
    TRY(mount_images(order));
    auto worker = WorkerChild::start(
        {program(), order, text_, directory_.fd(), -1, memory_ ? memory_->fd() : -1, {}});
    if (!worker) return cannot_start_worker(worker.error());
    auto status = end_of(*worker, WorkerTask::stage);
    if (!status && signal_ == 0) note_images();
    return status;
  }

  // The worker that stages says that there are none, and why.
  Status mount_images(StageOrder& order) {
    const std::size_t count = images_in(text_);
    if (count == 0) return {};
    auto images = ImageMounts::make(push_directory_.path(), count);
    if (!images) {
      order.images.refusal = images.error().text();
      return {};
    }
    images_.emplace(std::move(*images));
    order.images.mounts = images_->paths();
    ServeOrder serving;
    static_cast<OrderHead&>(serving) = order;
    return images_->serve({program(), serving, text_, directory_.fd(), -1, -1, {}});
  }

  // COMMAND, or somebody who cleans up, can have removed it.
  [[nodiscard]] Status check_there() const {
    struct stat info {};
    if (::fstat(directory_.fd(), &info) == 0 && info.st_nlink > 0) return {};
    return Error{ENOENT, directory_.path() +
                             " was removed while the command ran: the results in it are lost"};
  }

  // Once no other worker can write to the targets: none waits for its turn any more.
  Result<WorkerStatus> deliver() {
    if (wants_results(request_, order_)) TRY(check_there());
    TRY(push_directory_.close());
    for (;;) {
      TRY_ASSIGN(auto turn, push_directory_.take_last_turn());
      if (turn) {
        TRY_ASSIGN(WorkerChild worker,
                   push_directory_.start(std::move(*turn), order_, directory_.fd()));
        return end_of(worker, WorkerTask::stage_out);
      }
      const auto signal = signals_.next(k_turn_interval);
      if (signal && is_deadly(*signal)) {
        signal_ = *signal;
        return Error{EINTR, "ended"};
      }
    }
  }

  Result<WorkerStatus> end_of(WorkerChild& worker, WorkerTask task) {
    // A worker that waits for an image waits no longer once nobody serves it.
    if (const auto stop = watch_worker(worker, signals_, voice_, {}, [this] { images_.reset(); })) {
      signal_ = stop->signal;
      return Error{EINTR, "ended"};
    }
    return end_of_worker(worker, task);
  }

  [[nodiscard]] std::string program() const {
    return arguments_.worker.empty() ? worker_program() : arguments_.worker;
  }

  const RunArguments& arguments_;
  const StageRequest& request_;  // with the sources that are meant
  const std::string& text_;      // for workers: the sources as they were written
  StageOutOrder order_;
  PushDirectory& push_directory_;
  PrivateDirectory& directory_;
  std::optional<PrivateDirectory> memory_;  // removed with this object, or by the next run
  std::optional<ImageMounts> images_;       // likewise
  Signals& signals_;
  TaskVoice voice_;
  std::vector<VariableChange> environment_;  // of COMMAND
  int signal_ = 0;                           // the signal that stopped this; 0: none
  bool has_run_ = false;
};

Status check(const StageRequest& request, const NamedOrder& order) {
  TRY(check_targets(request, order));
  const auto text = request_text(request);
  if (!text) return text.error();
  if (!request.venv || is_venv_path(order.directory)) return {};
  return Error{EINVAL,
               "a virtual environment cannot be in " + printable(order.directory) +
                   ": its path would contain a quote, '$', '`', ':' or '\\'",
               "Name another directory: --tmpdir=DIR"};
}

// Those of the worker, and of what it copies.
Status check_open_files() {
  constexpr rlim_t k_least = 64;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= k_least) return {};
  return Error{EMFILE, "only " + std::to_string(files.rlim_cur) + " files may be open at once"};
}

}  // namespace

int run_job(const RunArguments& arguments) {
  if (::geteuid() == 0)
    return not_run("refuses to run as root: data is staged with an ordinary user's rights",
                   "Run it as the user who owns the data: sudo -u USER nodestage run ...");
  if (arguments.command.empty())
    return not_run("no command is given",
                   "Write it after --, for example: nodestage run --stage-dataset=data.tar -- ls");
  if (const Status enough = check_open_files(); !enough)
    return not_run(enough.error().text(), "Raise the limit: ulimit -n 1024");
  auto request = to_request(arguments.texts);
  if (!request) return not_run(request.error().text(), k_option_advice);
  for (DatasetItem& item : request->datasets) item.async = false;  // nothing could ask for it later
  auto signals = Signals::open();
  if (!signals) return not_run(signals.error().text(), "Try again.");
  auto record = PushDirectory::make(arguments.tmpdir);
  auto directory = record ? record->make_job_directory() : Result<PrivateDirectory>(record.error());
  if (!directory)
    return not_run(directory.error().text(),
                   "Name a directory of yours with enough space: --tmpdir=DIR");
  const StageOutOrder order = run_order(directory->path(), arguments.command.front());
  const auto text = request_text(*request);
  Status checked = text ? name_sources(*request, order) : Status(text.error());
  if (checked) checked = check(*request, order);
  if (!checked) {
    const Error& error = checked.error();
    return not_run(error.what, error.advice.empty() ? k_options_advice : error.advice);
  }
  leave_staged_job();
  return Run(arguments, *request, *text, order, *record, *directory, *signals).run();
}

}  // namespace nodestage
