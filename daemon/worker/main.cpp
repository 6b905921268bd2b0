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
#include <concepts>
#include <csignal>
#include <exception>

#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/request/source_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/image/image_server.hpp"
#include "daemon/worker/out/job_output.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/out/stage_out.hpp"
#include "daemon/worker/process/write_places.hpp"
#include "daemon/worker/relay/relay.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"
#include "daemon/worker/share/identify.hpp"
#include "daemon/worker/share/source_trust.hpp"
#include "daemon/worker/stage/stage.hpp"
#include "daemon/worker/stage/stage_report.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

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
  const bool is_roots = std::holds_alternative<RemoveOrder>(order) && head_of(order).uid == 0;
  if (!is_roots) TRY(verify_privileges(head_of(order)));
  return order;
}

// Landlock checks every directory from a name up to the allowed one: it would take minutes to
// remove a tree that is 100,000 levels deep. A removal walks by descriptors alone.
Sandbox enter(const RemoveOrder&, const StageRequest&) {
  return enter_sandbox(Profile::decode, Special::skip);
}

Sandbox enter(const RelayOrder&, const StageRequest&) {
  return enter_sandbox(Profile::relay, Special::skip, {});
}

Sandbox enter(const ServeOrder&, const StageRequest&) {
  return enter_sandbox(Profile::serve, Special::skip, {});
}

template <typename Order>
Sandbox enter(const Order& order, const StageRequest& request) {
  const auto places = write_places(order, request, k_worker_directory_fd, k_patience);
  Special special = Special::skip;
  if constexpr (requires { order.extract; }) special = order.extract.special;
  if (places) return enter_sandbox(Profile::decode, special, *places);
  log_line(
      "the directories to which this process writes are not confined: a target's file system "
      "does not answer");
  return enter_sandbox(Profile::decode, special);
}

// What the kernel lacks is not logged here: the daemon reports it at its start (write_places.hpp).
template <typename Order>
Status judge(const Sandbox& sandbox, const Order& order) {
  if (!sandbox.fault.empty()) log_error("not in the sandbox: " + sandbox.fault);
  bool is_needed = false;
  if constexpr (requires { order.sandbox; }) is_needed = order.sandbox == SandboxNeed::required;
  // The keeper's, to whom belongs all that is kept for several users.
  if constexpr (std::same_as<Order, LookOrder>) is_needed = true;
  if (!is_needed || sandbox.holds()) return {};
  return Error{EPERM, "the process that stages cannot confine itself on node '" + order.node +
                          "', and its administrators require that "
                          "(worker.sandbox): " +
                          (sandbox.fault.empty() ? sandbox.lacking : sandbox.fault)};
}

template <typename Order>
Status confine(const Order& order, const StageRequest& request) {
  return k_is_sanitized ? Status() : judge(enter(order, request), order);
}

// Called once, before the sandbox: both the builder and the sandbox depend on it.
Result<StageRequest> read_request() {
  TRY_ASSIGN(const std::string bytes, read_all(k_worker_request_fd, k_max_request_bytes));
  return decode_request(bytes);
}

// With the sources that are meant on this node. At the job's end, their file systems may answer no
// more, and their texts are enough (StagedData).
template <typename Order>
Result<StageRequest> read_request(const Order& order) {
  TRY_ASSIGN(StageRequest request, read_request());
  if constexpr (std::derived_from<Order, NamedOrder> && !std::derived_from<Order, DeliveryOrder>)
    TRY(expand_sources(request, strict_pattern_facts(order)));
  return request;
}

int fail(const Error& error) { return StageReport().fail(error.text(), {}); }

template <typename Order>
int refuse(const Order& order, const Error& error) {
  if constexpr (std::derived_from<Order, DeliveryOrder>)
    return refuse_delivery(words_of(order), error);
  return fail(error);
}

// Does what a task does in the sandbox: work(request), for one that has a request, or work().
template <typename Order, typename Work>
int confined(const Order& order, Work work) {
  if constexpr (std::invocable<Work, StageRequest>) {
    const auto request = read_request(order);
    if (!request) return refuse(order, request.error());
    if (const Status in = confine(order, *request); !in) return fail(in.error());
    return work(*request);
  } else {
    if (const Status in = confine(order, {}); !in) return fail(in.error());
    return work();
  }
}

// The keeper's trees are those of all users, so it reads what one of them wrote in the sandbox
// alone. The request says nothing of where it writes.
template <typename Order, typename Work>
int as_keeper(const Order& order, Work work) {
  if (const Status in = confine(order, {}); !in) return fail(in.error());
  const auto request = read_request();
  return request ? work(*request) : fail(request.error());
}

// The text of a notice, or of lines, takes the place of a request.
template <typename Write>
int write_text(Write write) {
  const auto text = read_all(k_worker_request_fd, k_max_request_bytes);
  if (text) return write(*text);
  log_line("the text for the user cannot be read: " + text.error().text());
  return 1;
}

int serve(const StageOrder& order) {
  if (const Status may = check_user(order); !may) return fail(may.error());
  const auto request = read_request(order);
  if (!request) return refuse(order, request.error());
  auto builder = start_builder(order, *request);
  if (!builder) return fail(builder.error());
  Status in = *builder && !k_is_sanitized ? judge((*builder)->sandbox(), order) : Status();
  if (in) in = confine(order, *request);
  if (!in) return fail(in.error());
  return run_stage(order, *request, *builder ? &**builder : nullptr);
}

int serve(const StageOutOrder& order) {
  return confined(order,
                  [&order](const StageRequest& request) { return run_stage_out(order, request); });
}

int serve(const PushOrder& order) {
  return confined(order, [&order](const StageRequest& request) {
    lower_priority();
    return run_push(order, request);
  });
}

int serve(const RecoverOrder& order) {
  return confined(order,
                  [&order](const StageRequest& request) { return run_recover(order, request); });
}

// Of a user for whom nothing may be staged, `stage` says so.
int serve(const IdentifyOrder& order) {
  if (!check_user(order)) return run_identify(order, {});
  return confined(order,
                  [&order](const StageRequest& request) { return run_identify(order, request); });
}

// The sources are received first: then no call of the sandbox is needed for it.
int serve(const LookOrder& order) {
  const auto items = receive_items(k_worker_sources_fd, is_of_the_site);
  if (!items) return fail(items.error());
  return as_keeper(order,
                   [&](const StageRequest& request) { return run_look(order, request, *items); });
}

int serve(const KeepOrder& order) {
  auto items = receive_items(k_worker_sources_fd, is_of_the_site, order.only_items);
  if (!items) return fail(items.error());
  return as_keeper(order, [&](const StageRequest& request) {
    return run_keep(order, request, std::move(*items));
  });
}

int serve(const RemoveOrder& order) {
  return confined(order, [&order] { return run_remove(order); });
}

// Without a request, all is measured, and nothing is dropped.
int serve(const MeasureOrder& order) {
  const auto read = read_request(order);
  const StageRequest request = read ? *read : StageRequest();
  if (const Status in = confine(order, request); !in) return fail(in.error());
  return run_measure(order, request);
}

int serve(const CompareOrder& order) { return confined(order, run_compare); }
int serve(const ProbeOrder&) { return run_probe(); }

int serve(const RelayOrder& order) {
  return confined(order, [&order] { return run_relay(order); });
}

int serve(const ServeOrder& order) {
  return run_serve(order, [&order] { return confine(order, {}); });
}

int serve(const NoticeOrder& order) {
  return confined(order, [&order] {
    return write_text([&order](const std::string& text) { return run_notice(order, text); });
  });
}

// The file is opened first, so that the process can write to it and to nothing else.
int serve(const AppendOrder& order) {
  const auto output = open_job_output(order);
  return confined(order, [&] {
    return write_text(
        [&](const std::string& lines) { return run_append(output, lines, order.node_count); });
  });
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
  return std::visit([](const auto& one) { return serve(one); }, *order);
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
