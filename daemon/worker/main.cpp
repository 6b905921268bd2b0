// nodestage-worker: one task for one job, as the job's user.
//
// Inherits from nodestaged the uid, gid, and groups of the job's user, no capability, no_new_privs,
// and the descriptors of common/wire/worker_order.hpp: its order, the user's request, the status
// file, the job directory, the rate, the list of deliveries, the relay's board and spool. Before it
// reads any of these, it verifies that no id is 0, that every capability set is empty, that
// no_new_privs is set, and that the ids are the order's. (Only the task `remove`, whose order names
// uid 0, may run as root, to remove files of foreign owners.) For a request with --stage-venv it
// starts one process, the builder (builder.hpp), before any thread. Once it knows its task and
// before it opens a source, it drops what sandbox.hpp lists, as far as the kernel can. It serves no
// requests: it does its task, writes the status file, logs to fd 2, and exits. (The task `relay`
// serves other nodes of its job, once they have proved that they know its key.) SIGTERM stops it at
// any moment; incomplete data have hidden names.
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <exception>

#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/basis/low_priority.hpp"
#include "daemon/worker/out/job_output.hpp"
#include "daemon/worker/out/measure.hpp"
#include "daemon/worker/out/notice.hpp"
#include "daemon/worker/out/stage_out.hpp"
#include "daemon/worker/probe.hpp"
#include "daemon/worker/relay/run_relay.hpp"
#include "daemon/worker/sandbox/privileges.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"
#include "daemon/worker/share/compare_tree.hpp"
#include "daemon/worker/share/identify.hpp"
#include "daemon/worker/stage/stage.hpp"
#include "daemon/worker/stage/stage_report.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/write_places.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_order_bytes = 64 * 1024;
// The time for targets' file systems to answer; then delivery matters more than confinement.
constexpr auto k_patience = std::chrono::seconds(20);

// The sanitizers need calls that no worker makes: fork and ptrace, to look for leaks.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool k_is_sanitized = true;
#else
constexpr bool k_is_sanitized = false;
#endif

Result<WorkerOrder> read_order() {
  TRY_ASSIGN(const std::string json, read_all(k_worker_order_fd, k_max_order_bytes));
  TRY_ASSIGN(WorkerOrder order, decode_order(json));
  if (order.task != WorkerTask::remove || order.uid != 0) TRY(verify_privileges(order));
  return order;
}

// Landlock checks every directory from a name up to the allowed one: it would take minutes to
// remove a tree that is 100,000 levels deep. A removal walks by descriptors alone.
Sandbox confine(const WorkerOrder& order, const StageRequest& request) {
  if (order.task == WorkerTask::relay) return enter_sandbox(Profile::relay, Special::skip, {});
  const bool is_removal = order.task == WorkerTask::remove;
  const auto places =
      is_removal ? std::nullopt : write_places(order, request, k_worker_directory_fd, k_patience);
  if (!places && !is_removal)
    log_line(
        "the directories to which this process writes are not confined: a target's file system "
        "does not answer");
  const Special special = order.extract.special;
  return places ? enter_sandbox(Profile::decode, special, *places)
                : enter_sandbox(Profile::decode, special);
}

// What the kernel lacks is not logged here: the daemon reports it at its start (probe.hpp).
Status judge(const Sandbox& sandbox, const WorkerOrder& order) {
  if (!sandbox.fault.empty()) log_error("not in the sandbox: " + sandbox.fault);
  const bool is_needed = (order.task == WorkerTask::stage || order.task == WorkerTask::relay) &&
                         order.sandbox == SandboxNeed::required;
  if (!is_needed || sandbox.holds()) return {};
  return Error{EPERM, "the process that stages cannot confine itself on node '" + order.node +
                          "', and its administrators require that "
                          "(worker.sandbox): " +
                          (sandbox.fault.empty() ? sandbox.lacking : sandbox.fault)};
}

bool has_request(WorkerTask task) {
  return task == WorkerTask::stage || task == WorkerTask::identify ||
         task == WorkerTask::stage_out || task == WorkerTask::push || task == WorkerTask::recover;
}

// The text of a notice, or of lines, takes the place of a request.
template <typename Write>
int write_text(Write write) {
  const auto text = read_all(k_worker_request_fd, k_max_request_bytes);
  if (text) return write(*text);
  log_line("the text for the user cannot be read: " + text.error().text());
  return 1;
}

// The file is opened first, so that the process can write to it and to nothing else.
int append_lines(const WorkerOrder& order) {
  const auto output = open_job_output(order);
  if (!k_is_sanitized) static_cast<void>(judge(confine(order, {}), order));
  return write_text([&output](const std::string& lines) { return run_append(output, lines); });
}

// Called once, before the sandbox: both the builder and the sandbox depend on it.
Result<StageRequest> read_request() {
  TRY_ASSIGN(const std::string bytes, read_all(k_worker_request_fd, k_max_request_bytes));
  return decode_request(bytes);
}

int refuse(const WorkerOrder& order, const Error& error) {
  const bool is_stage = order.task == WorkerTask::stage || order.task == WorkerTask::identify;
  return is_stage ? StageReport().fail(error.text(), {}) : refuse_stage_out(order, error);
}

int do_task(const WorkerOrder& order, const StageRequest& request, Builder* builder) {
  switch (order.task) {
    case WorkerTask::remove:
      return run_remove(order);
    case WorkerTask::measure:
      return run_measure();
    case WorkerTask::notice:
      return write_text([&order](const std::string& text) { return run_notice(order, text); });
    case WorkerTask::stage:
      return run_stage(order, request, builder);
    case WorkerTask::compare:
      return run_compare();
    case WorkerTask::identify:
      return run_identify(order, request);
    case WorkerTask::relay:
      return run_relay(order);
    case WorkerTask::push:
      lower_priority();
      return run_stage_out(order, request);
    case WorkerTask::stage_out:
    case WorkerTask::recover:
      return run_stage_out(order, request);
    case WorkerTask::probe:  // serve() has done these two
    case WorkerTask::append:
      break;
  }
  log_line("refused to run: a task that is not done here");
  return 2;
}

int serve(const WorkerOrder& order) {
  if (order.task == WorkerTask::probe) return run_probe();
  if (order.task == WorkerTask::append) return append_lines(order);
  const auto request = has_request(order.task) ? read_request() : Result(StageRequest());
  if (!request) return refuse(order, request.error());
  auto builder = order.task == WorkerTask::stage ? start_builder(order, *request)
                                                 : Result<std::optional<Builder>>(std::nullopt);
  if (!builder) return StageReport().fail(builder.error().text(), {});
  if (!k_is_sanitized) {
    Status confined = *builder ? judge((*builder)->sandbox(), order) : Status();
    if (confined) confined = judge(confine(order, *request), order);
    if (!confined) return StageReport().fail(confined.error().text(), {});
  }
  return do_task(order, *request, *builder ? &**builder : nullptr);
}

int run() {
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGIO})
    static_cast<void>(std::signal(signal, SIG_IGN));
  std::setlocale(LC_ALL, "C.UTF-8");
  ::umask(077);
  const auto order = read_order();
  if (!order) {
    log_line("refused to run: " + order.error().text());
    return 2;
  }
  return serve(*order);
}

}  // namespace
}  // namespace nodestage

// The boundary for exceptions of libraries.
int main() {
  try {
    return nodestage::run();
  } catch (const std::exception& error) {
    return nodestage::StageReport().fail(std::string("the worker failed: ") + error.what(), {});
  }
}
