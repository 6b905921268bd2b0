// The daemon's socket: what many callers at once get of it.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <functional>
#include <vector>

#include "common/os/child.hpp"
#include "common/wire/daemon_client.hpp"
#include "daemon/root/front/server.hpp"
#include "daemon_node.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// With `held` results of each user, and who asks for them.
struct Crowd {
  DaemonNode node;
  Server server{*node.loop, node.config, node.jobs, 1024};
  std::vector<DaemonConnection> clients = {};
  Clock::time_point in_a_minute = Clock::now() + std::chrono::minutes(1);

  void hold(std::uint32_t uid, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      JobRecord record = node.record(uid * 100 + i, JobState::held);
      record.begin.uid = record.begin.gid = uid;
      record.ended = record.in_hold = true;
      const std::string tree = node.scratch / (".nodestage/hold/" + to_text(record.key()));
      REQUIRE(::mkdir(tree.c_str(), 0700) == 0);
      REQUIRE(::chown(tree.c_str(), uid, uid) == 0);
      record.hold.since = record.hold.warned_at = static_cast<std::uint64_t>(::time(nullptr));
      record.hold.is_measured = record.hold.notice_is_current = true;
      record.hold.reasons.assign(100, std::string(600, 'x'));
      node.keep(record);
    }
  }
  void listen() {
    node.jobs.recover();
    REQUIRE(server.listen(node.config.daemon.socket));
    REQUIRE(::chmod(node.scratch.path().c_str(), 0711) == 0);
  }
  void ask(std::uint32_t uid, const Message& message) {
    REQUIRE(::seteuid(uid) == 0);
    auto client = must(DaemonConnection::open(node.config.daemon.socket));
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(client.send(message, in_a_minute));
    clients.push_back(std::move(client));
    run(std::chrono::milliseconds(5));
  }
  void run(std::chrono::milliseconds time) {
    node.loop->after(time, [this] { node.loop->stop(); });
    REQUIRE(node.loop->run());
  }
  // Of the last one who asked.
  std::size_t rows() {
    for (std::size_t rows = 0;;) {
      run(std::chrono::milliseconds(1));
      const auto message = clients.back().receive(Clock::now() + std::chrono::milliseconds(1));
      if (!message && message.error().code == ETIMEDOUT && Clock::now() < in_a_minute) continue;
      REQUIRE(message);
      if (std::holds_alternative<Accepted>(*message)) return rows;
      ++rows;
    }
  }
};

}  // namespace

TEST_CASE("users who hold all connections keep nobody else out") {
  if (skipped_without_root()) return;
  const Sleeper worker;
  Crowd crowd;
  crowd.node.config.daemon.max_connections = 4;
  for (const std::uint32_t uid : {1001U, 1002U}) {
    JobRecord record = crowd.node.record(uid, uid == 1001 ? JobState::staging : JobState::queued);
    record.begin.uid = record.begin.gid = uid;
    if (uid == 1001) record.worker = worker.mark();
    crowd.node.keep(record);
  }
  crowd.listen();
  for (const std::uint32_t uid : {1001U, 1002U, 1001U, 1002U}) {
    Wait wait{.job = uid};
    crowd.ask(uid, wait);
  }
  crowd.ask(1003, HeldQuery{});
  CHECK(crowd.rows() == 0);
}

TEST_CASE(
    "a user who connects while a daemon starts gets in, or finds nobody, and is never refused") {
  if (skipped_without_root()) return;
  Crowd crowd;
  REQUIRE(::chmod(crowd.node.scratch.path().c_str(), 0711) == 0);
  const std::string socket = crowd.node.config.daemon.socket;
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
    Server server(*crowd.node.loop, crowd.node.config, crowd.node.jobs, 1024);
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
  crowd.listen();
  for (std::uint32_t uid = 1000; uid < 1000 + k_greedy; ++uid) {
    for (int i = 0; i < 24; ++i) crowd.ask(uid, HeldQuery{});
  }
  crowd.ask(1000 + k_greedy, HeldQuery{});
  CHECK(crowd.rows() == 10);
}

TEST_CASE("a list that is longer than a socket holds arrives whole") {
  if (skipped_without_root()) return;
  DaemonNode node;
  constexpr std::uint32_t k_held = 100;
  for (std::uint32_t job = 1; job <= k_held; ++job) {
    JobRecord record = node.record(job, JobState::held);
    record.ended = record.in_hold = true;
    const std::string tree = node.scratch / (".nodestage/hold/" + to_text(record.key()));
    REQUIRE(::mkdir(tree.c_str(), 0700) == 0);
    REQUIRE(::chown(tree.c_str(), 1000, 1000) == 0);
    record.hold.since = record.hold.warned_at = static_cast<std::uint64_t>(::time(nullptr));
    record.hold.is_measured = record.hold.notice_is_current = true;
    record.hold.reasons.assign(8, std::string(500, 'x'));
    node.keep(record);
  }
  node.jobs.recover();
  Server server(*node.loop, node.config, node.jobs, 1024);
  REQUIRE(server.listen(node.config.daemon.socket));
  const auto in_a_minute = Clock::now() + std::chrono::minutes(1);
  auto client = must(DaemonConnection::open(node.config.daemon.socket));
  REQUIRE(client.send(HeldQuery{}, in_a_minute));
  int go[2];
  REQUIRE(::pipe(go) == 0);
  const pid_t reader = ::fork();
  if (reader == 0) {
    char byte = 0;
    ::close(go[1]);
    if (::read(go[0], &byte, 1) != 1) ::_exit(3);
    std::uint32_t rows = 0;
    for (;;) {
      const auto message = client.receive(in_a_minute);
      if (!message) ::_exit(1);
      if (std::holds_alternative<HeldRow>(*message)) ++rows;
      if (std::holds_alternative<Accepted>(*message)) ::_exit(rows == k_held ? 0 : 2);
    }
  }
  const auto reader_fd = must(open_pid(reader));
  REQUIRE(node.loop->watch(reader_fd.get(), [&] { node.loop->stop(); }));
  // It begins to read when the daemon has said all.
  int rounds = 0;
  std::function<void()> next = [&] {
    if (++rounds < 20) {
      node.loop->after(std::chrono::milliseconds(0), next);
    } else {
      CHECK(::write(go[1], "x", 1) == 1);
    }
  };
  next();
  REQUIRE(node.loop->run());
  int status = -1;
  REQUIRE(::waitpid(reader, &status, 0) == reader);
  CHECK(status == 0);
  for (const int end : go) ::close(end);
}
