// The daemon's socket: what many callers at once get of it.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <functional>
#include <vector>

#include "common/os/child.hpp"
#include "daemon_node.hpp"

using namespace nodestage;

namespace {

// With `held` results of each user, and who asks for them.
struct Crowd : ServedNode {
  std::vector<DaemonConnection> clients = {};

  void hold(std::uint32_t uid, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      JobRecord held = record(uid * 100 + i, JobState::held);
      held.begin.uid = held.begin.gid = uid;
      held.ended = held.in_hold = true;
      const std::string tree = scratch / (".nodestage/hold/" + to_text(held.key()));
      REQUIRE(::mkdir(tree.c_str(), 0700) == 0);
      REQUIRE(::chown(tree.c_str(), uid, uid) == 0);
      held.hold.since = held.hold.warned_at = static_cast<std::uint64_t>(::time(nullptr));
      held.hold.is_measured = held.hold.notice_is_current = true;
      held.hold.reasons.assign(100, std::string(600, 'x'));
      keep(held);
    }
  }
  void recover_and_listen() {
    jobs.recover();
    listen();
  }
  void ask_as(std::uint32_t uid, const Message& message) {
    REQUIRE(::seteuid(uid) == 0);
    clients.push_back(ask(message));
    REQUIRE(::seteuid(0) == 0);
    run(std::chrono::milliseconds(5));
  }
  // Of the last one who asked.
  std::size_t rows() {
    std::size_t rows = 0;
    while (!std::holds_alternative<Accepted>(must(answer(clients.back())))) ++rows;
    return rows;
  }
};

}  // namespace

TEST_CASE("users who hold all connections keep nobody else out") {
  if (skipped_without_root()) return;
  const Sleeper worker;
  Crowd crowd;
  crowd.config.daemon.max_connections = 4;
  for (const std::uint32_t uid : {1001U, 1002U}) {
    JobRecord record = crowd.record(uid, uid == 1001 ? JobState::staging : JobState::queued);
    record.begin.uid = record.begin.gid = uid;
    if (uid == 1001) record.worker = worker.mark();
    crowd.keep(record);
  }
  crowd.recover_and_listen();
  for (const std::uint32_t uid : {1001U, 1002U, 1001U, 1002U}) {
    Wait wait{.job = uid};
    crowd.ask_as(uid, wait);
  }
  crowd.ask_as(1003, HeldQuery{});
  CHECK(crowd.rows() == 0);
}

TEST_CASE(
    "a user who connects while a daemon starts gets in, or finds nobody, and is never refused") {
  if (skipped_without_root()) return;
  Crowd crowd;
  REQUIRE(::chmod(crowd.scratch.path().c_str(), 0711) == 0);
  const std::string socket = crowd.config.daemon.socket;
  const pid_t caller = ::fork();
  if (caller == 0) {
    if (::seteuid(1001) != 0) ::_exit(2);
    // Until the last daemon's socket is there.
    for (;;) {
      const auto client = DaemonConnection::open(socket);
      if (!client && !is_daemon_away(client.error())) ::_exit(1);
      if (::access((socket + ".last").c_str(), F_OK) == 0) ::_exit(0);
    }
  }
  for (int i = 0; i < 300; ++i) {
    Server server(*crowd.loop, crowd.config, crowd.jobs, 1024);
    CHECK(server.listen(socket));
    REQUIRE(::unlink(socket.c_str()) == 0);
  }
  REQUIRE(::mkdir((socket + ".last").c_str(), 0711) == 0);
  int status = 0;
  REQUIRE(::waitpid(caller, &status, 0) == caller);
  CHECK(status == 0);
}

TEST_CASE("users who do not read what they ask for keep no answer from others") {
  if (skipped_without_root()) return;
  Crowd crowd;
  constexpr std::uint32_t k_greedy = 9;
  for (std::uint32_t uid = 1000; uid <= 1000 + k_greedy; ++uid) crowd.hold(uid, 10);
  crowd.recover_and_listen();
  for (std::uint32_t uid = 1000; uid < 1000 + k_greedy; ++uid) {
    for (int i = 0; i < 24; ++i) crowd.ask_as(uid, HeldQuery{});
  }
  crowd.ask_as(1000 + k_greedy, HeldQuery{});
  CHECK(crowd.rows() == 10);
}

TEST_CASE("a list that is longer than a socket holds arrives whole") {
  if (skipped_without_root()) return;
  Crowd crowd;
  constexpr std::uint32_t k_held = 100;
  crowd.hold(1000, k_held);
  crowd.recover_and_listen();
  auto client = crowd.ask(HeldQuery{});
  int go[2];
  REQUIRE(::pipe(go) == 0);
  const pid_t reader = ::fork();
  if (reader == 0) {
    char byte = 0;
    ::close(go[1]);
    if (::read(go[0], &byte, 1) != 1) ::_exit(3);
    std::uint32_t rows = 0;
    for (;;) {
      const auto message = client.receive(crowd.limit);
      if (!message) ::_exit(1);
      if (std::holds_alternative<HeldRow>(*message)) ++rows;
      if (std::holds_alternative<Accepted>(*message)) ::_exit(rows == k_held ? 0 : 2);
    }
  }
  const auto reader_fd = must(open_pid(reader));
  REQUIRE(crowd.loop->watch(reader_fd.get(), [&] { crowd.loop->stop(); }));
  // It begins to read when the daemon has said all.
  int rounds = 0;
  std::function<void()> next = [&] {
    if (++rounds < 20) {
      crowd.loop->after(std::chrono::milliseconds(0), next);
    } else {
      CHECK(::write(go[1], "x", 1) == 1);
    }
  };
  next();
  REQUIRE(crowd.loop->run());
  int status = -1;
  REQUIRE(::waitpid(reader, &status, 0) == reader);
  CHECK(status == 0);
  for (const int end : go) ::close(end);
}
