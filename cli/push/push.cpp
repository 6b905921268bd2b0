#include "cli/push/push.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/base/conversation.hpp"
#include "cli/process/command_process.hpp"
#include "cli/process/worker_child.hpp"
#include "cli/run_dirs/private_directory.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/talk/summary.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_push_turn{100};
// What follows the lines of outputs that are not all delivered.
constexpr const char* k_not_all_delivered =
    "not everything is in its target now: what is left is delivered by the next push, or when the "
    "job ends";
constexpr const char* k_has_ended = "the command has exited: `nodestage run` delivers what is left";

// Refuses a name that is no source of the request.
Status check_names(const std::vector<std::string>& names, const std::string& text) {
  TRY_ASSIGN(const StageRequest request, decode_request(text));
  std::vector<std::string_view> known;
  std::string list;
  for (const OutputItem& item : request.outputs) {
    known.emplace_back(item.source);
    list += (list.empty() ? "" : ", ") + item.source;
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return Error{EINVAL,
                   "'" + name + "' is not a source of --stage-out" + did_you_mean(name, known),
                   "Its sources here: " + printable(list)};
  }
  return {};
}

class RunPush {
 public:
  RunPush(const PushDirectory& place, Signals& signals, TaskVoice& voice)
      : place_(place), signals_(signals), voice_(voice) {}

  int run(const PushOrder& order) {
    const auto job_directory =
        open_at(AT_FDCWD, order.directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!job_directory) return failed(job_directory.error());
    for (;;) {
      if (place_.is_closed()) return failed({0, k_has_ended});
      auto turn = place_.take_turn();
      if (!turn) return failed(turn.error());
      if (*turn) return deliver(std::move(**turn), order, job_directory->get());
      const auto signal = signals_.next(k_push_turn);
      if (signal && is_deadly(*signal)) return 128 + *signal;
      if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
    }
  }

 private:
  int deliver(PushTurn turn, const PushOrder& order, int job_directory) {
    if (place_.is_closed()) return failed({0, k_has_ended});
    auto worker = place_.start(std::move(turn), order, job_directory);
    if (!worker) return failed(worker.error());
    const auto is_closed = [this] { return place_.is_closed(); };
    if (const auto stop = watch_worker(*worker, signals_, voice_, is_closed))
      return stop->signal != 0 ? 128 + stop->signal : failed({0, k_has_ended});
    const auto status = end_of_worker(*worker, WorkerTask::push);
    if (!status) return failed(status.error());
    for (const std::string& line : push_lines(*status)) voice_.say(line);
    const auto asked = order.push_all ? PushAsked::all : PushAsked::by_name;
    return is_all_delivered(*status, asked) ? 0 : failed({0, k_not_all_delivered});
  }

  int failed(const Error& error) {
    voice_.say(error.text());
    return k_fault;
  }

  const PushDirectory& place_;
  Signals& signals_;
  TaskVoice& voice_;
};

// Goes on in a process of its own, which keeps none of the caller's files open.
int leave_behind(const std::function<int()>& push) {
  const auto child = ChildProcess::start(Orphan::left, [&push] {
    const auto null = open_at(AT_FDCWD, "/dev/null", O_RDWR);
    if (!null) return k_fault;
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null->get(), fd);
    return push();
  });
  return child ? 0
               : fault("cannot deliver in the background: " + child.error().text(), "Try again.");
}

// `nodestage push` inside of `nodestage run`, which has no daemon: this process starts the worker.
// Waits for its turn in the PushDirectory at `place`, and pushes.
int push_in_run(const std::string& place, const PushArguments& arguments, TaskVoice& voice) {
  const auto opened = PushDirectory::open(place);
  if (!opened)
    return wrong_usage("the files of `nodestage run` cannot be read: " + opened.error().text(),
                       "`nodestage push` works while the command of `nodestage run` runs.");
  if (const Status checked = check_names(arguments.names, opened->request()); !checked)
    return wrong_usage(checked.error().what, checked.error().advice);
  const PushOrder order{opened->order(), arguments.names.empty(), 0, arguments.names,
                        !arguments.no_wait};
  const auto push = [&] {
    auto signals = Signals::open();
    if (!signals) return fault(signals.error().text(), "Try again.");
    return RunPush(*opened, *signals, voice).run(order);
  };
  return arguments.no_wait ? leave_behind(push) : push();
}

constexpr const char* k_what_a_source_is =
    "SOURCE is written as in --stage-out, or is that path below $SLURM_TMPDIR. Without one, all "
    "are delivered.";

int take_answer(const Message& answer, TaskVoice& voice) {
  if (std::holds_alternative<Accepted>(answer)) return 0;
  if (const auto* ready = std::get_if<Ready>(&answer)) {
    for (const std::string& line : ready->lines) voice.say(line);
    return 0;
  }
  const auto* failed = std::get_if<Failed>(&answer);
  if (failed == nullptr) return daemon_fault("nodestaged gave an unexpected answer");
  for (const std::string& line : failed->lines) voice.say(line);
  voice.say(failed->lines.empty() ? failed->cause : k_not_all_delivered);
  return k_fault;
}

int push_in_job(const PushArguments& arguments, std::uint32_t job, TaskVoice& voice) {
  const Push ask{job, static_cast<std::uint32_t>(voice.report_interval().count()),
                 static_cast<std::uint8_t>(arguments.no_wait ? 0 : 1), arguments.names};
  return JobConversation({"push", "a job with --stage-out", k_what_a_source_is}, arguments.socket,
                         job, voice)
      .run(ask, [&voice](const Message& answer) { return take_answer(answer, voice); });
}

}  // namespace

std::string output_source_name(std::string name, const std::string& job_directory) {
  const auto drop_slashes_at_end = [](std::string& path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  };
  drop_slashes_at_end(name);
  std::string top = job_directory;
  drop_slashes_at_end(top);
  top += '/';
  if (!job_directory.empty() && name.starts_with(top)) name.erase(0, top.size());
  while (name.starts_with("./")) name.erase(0, 2);
  return name;
}

int push_outputs(PushArguments arguments) {
  const std::string directory = own_variable("SLURM_TMPDIR");
  if (arguments.names.size() > k_max_request_items) return too_many_names(k_max_request_items);
  std::size_t bytes = 0;
  for (std::string& name : arguments.names) {
    bytes += name.size();
    if (bytes > k_max_request_bytes)
      return wrong_usage("the names are longer than those of any job", k_what_a_source_is);
    name = output_source_name(name, directory);
    if (name.empty()) return wrong_usage("'' is not a source of --stage-out", k_what_a_source_is);
  }
  TaskVoice voice(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), node_name(),
                  k_line_interval);
  if (const char* place = std::getenv(k_push_directory_variable); place != nullptr)
    return push_in_run(place, arguments, voice);
  if (std::getenv("NODESTAGE_RUN") != nullptr)
    return wrong_usage("there is nothing to deliver: `nodestage run` has no --stage-out",
                       "Add it before the command: nodestage run --stage-out=SOURCE:TARGET ...");
  const std::uint32_t job = job_of_environment();
  if (job == 0) return outside_of_a_job();
  return push_in_job(arguments, job, voice);
}

}  // namespace nodestage
