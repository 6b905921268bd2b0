// bench-relay WORKER SOURCE DIRECTORY THREADS WINDOW NODES SITE_RATE
//
// One node of a job: runs the program WORKER as the daemon runs nodestage-worker (launch.hpp), once
// as `stage`, for one dataset SOURCE that becomes DIRECTORY/data, and beside it once as `relay`,
// with a board, a spool of WINDOW bytes, and a plan. WINDOW 0: no relay. NODES: of the job;
// SITE_RATE: relay.site_rate. Prints a line for each thing that happens, and takes lines from
// stdin:
//
//   prints   here                              all is made
//   takes    go                                starts the workers
//   prints   port PORT                         the relay worker listens there; 0: it does not.
//   takes    head KEY                          the plan; KEY: hexadecimal
//            link NODE ADDRESS PORT KEY
//   prints   {"ended": S, ...}                 the staging is over; S: seconds of CLOCK_MONOTONIC
//   takes    end                               kills the relay worker
//   prints   {"resident": KIB, "cpu": S}       of the relay worker
//
// Between `go` and the first of the two objects there is no line if WINDOW is 0, and the second is
// left out. Exit code 0 if the dataset was staged.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "common/wire/peer_note.hpp"
#include "common/wire/relay_board.hpp"
#include "common/wire/status_file.hpp"
#include "launch.hpp"

namespace nodestage {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t k_least_bytes = 1 << 20;

struct Node {
  const char* program;
  std::string source;
  std::string directory;
  unsigned threads;
  std::uint64_t window;
  std::uint32_t nodes;
  std::uint64_t site_rate;
};

void say(const std::string& line) { std::cout << line << std::endl; }

std::string heard() {
  std::string line;
  if (!std::getline(std::cin, line)) give_up("nobody says what comes next");
  return line;
}

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

StageOrder stage_order(const Node& node) {
  StageOrder order = make_order(node.directory, node.threads);
  order.node_count = node.nodes;
  order.has_board = node.window != 0;
  order.relay.window_bytes = node.window;
  order.relay.least_bytes = k_least_bytes;
  order.relay.file_systems = {"fuse"};
  order.relay.ports = {0, 0};
  order.relay.site_rate_bytes = node.site_rate;
  return order;
}

RelayOrder relay_order(const Node& node) {
  const StageOrder stage = stage_order(node);
  return {stage, stage.sandbox, stage.relay, stage.has_board};
}

// What both workers have.
Launch common_files(const Node& node) {
  Launch files;
  files.directory = opened(node.directory, O_RDONLY | O_DIRECTORY);
  files.rate = rate_file();
  if (node.window == 0) return files;
  files.board = memory_file("board", "");
  if (::ftruncate(files.board, k_relay_board_bytes) != 0) give_up("the board cannot be made");
  files.spool = opened(node.directory, O_TMPFILE | O_RDWR);
  return files;
}

Launch stage_files(const Node& node, const Launch& common) {
  Launch files = common;
  files.status = memory_file("status", "");
  files.order = memory_file("order", encode_order(stage_order(node)));
  files.request = memory_file("request", encode_request(make_request(node.source)));
  files.answer = opened("/dev/null", O_RDONLY);
  return files;
}

Launch relay_files(const Node& node, const Launch& common) {
  Launch files = common;
  files.status = memory_file("relay status", "");
  files.order = memory_file("relay order", encode_order(relay_order(node)));
  files.request = memory_file("no request", "");
  files.answer = memory_file("plan", "");
  return files;
}

// As the daemon does: once the relay worker listens, or will not.
std::uint16_t port_of(const Launch& relay, pid_t pid) {
  for (;;) {
    const auto status = read_worker_status(relay.status);
    if (!status) give_up(status.error().what);
    if (status->phase == WorkerPhase::working) return status->relay_port;
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid == pid)
      return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

RelayPlan plan_of(const std::string& line) {
  std::istringstream words(line);
  std::string part;
  std::string key;
  RelayPlan plan;
  words >> part;
  plan.part = part == "head" ? RelayPart::head : RelayPart::link;
  if (plan.part == RelayPart::link) words >> plan.node >> plan.address >> plan.port;
  words >> key;
  if (!words || key.size() != 2 * k_relay_key_bytes) give_up("no plan: " + line);
  for (std::size_t i = 0; i < k_relay_key_bytes; ++i)
    plan.key[i] = static_cast<std::uint8_t>(std::stoul(key.substr(2 * i, 2), nullptr, 16));
  return plan;
}

Json result_of(const Launch& stage, int code) {
  const auto status = read_worker_status(stage.status);
  if (!status) give_up(status.error().what);
  Json result{{"ended", now()}, {"code", code}, {"cause", status->cause}};
  for (const ItemRecord& item : status->items) {
    result["note"] = field_text(item.note);
    result["from_storage"] = item.bytes_from_storage;
    result["from_nodes"] = item.bytes_from_nodes;
  }
  return result;
}

void end_relay(pid_t pid) {
  if (heard() != "end") give_up("not the end");
  ::kill(pid, SIGKILL);
  rusage use{};
  int ended = 0;
  if (::wait4(pid, &ended, 0, &use) != pid) give_up("cannot wait for the relay worker");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  say(Json{{"resident", use.ru_maxrss}, {"cpu", seconds(use.ru_utime) + seconds(use.ru_stime)}}
          .dump());
}

int run(const Node& node) {
  const Launch common = common_files(node);
  const Launch stage = stage_files(node, common);
  const Launch relay = node.window == 0 ? Launch() : relay_files(node, common);
  say("here");
  if (heard() != "go") give_up("not to go");
  const pid_t relay_pid = node.window == 0 ? -1 : start_worker(relay, node.program);
  const pid_t stage_pid = start_worker(stage, node.program);
  if (relay_pid > 0) {
    say("port " + std::to_string(port_of(relay, relay_pid)));
    const Status planned = write_relay_plan(relay.answer, plan_of(heard()));
    if (!planned) give_up(planned.error().what);
  }
  int ended = 0;
  if (::waitpid(stage_pid, &ended, 0) != stage_pid) give_up("cannot wait for the worker");
  const Json result = result_of(stage, exit_code(ended));
  say(result.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (relay_pid > 0) end_relay(relay_pid);
  return result["code"] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nodestage

int main(int count, char** arguments) {
  if (count != 8) {
    std::fputs("usage: bench-relay WORKER SOURCE DIRECTORY THREADS WINDOW NODES SITE_RATE\n",
               stderr);
    return 2;
  }
  return nodestage::run({arguments[1], arguments[2], arguments[3],
                         static_cast<unsigned>(std::atoi(arguments[4])),
                         std::strtoull(arguments[5], nullptr, 10),
                         static_cast<std::uint32_t>(std::atoi(arguments[6])),
                         std::strtoull(arguments[7], nullptr, 10)});
}
