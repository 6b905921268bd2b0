#include "cli/push/push_in_run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "cli/base/conversation.hpp"
#include "cli/base/push_directory.hpp"
#include "cli/base/signals.hpp"
#include "cli/base/worker_watch.hpp"
#include "common/os/child_process.hpp"
#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/talk/summary.hpp"
#include "common/text/did_you_mean.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_turn_interval{100};
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
      const auto signal = signals_.next(k_turn_interval);
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

}  // namespace

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

}  // namespace nodestage
