#include <doctest/doctest.h>

#include "daemon/root/nodes/barrier.hpp"
#include "daemon/root/nodes/peers.hpp"
#include "texts.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

const Barrier::Time k_start{1000s};
const Barrier::Limits k_limits{60s, 20s};

NodeNote note(NodeState state, std::uint64_t read = 0, std::uint64_t total = 0) {
  return {.state = state, .bytes_read = read, .bytes_total = total};
}

}  // namespace

TEST_CASE("a job is ready when each of its nodes is") {
  Barrier barrier({"n1", "n2"}, k_start);
  CHECK(barrier.verdict() == Verdict::open);
  CHECK(barrier.text() == "2 of 2 nodes are not ready: n1 (has not begun), n2 (has not begun)");
  barrier.take("n2", note(NodeState::ready), k_start);
  barrier.take("n2", note(NodeState::ready), k_start);  // told again
  CHECK(barrier.verdict() == Verdict::open);
  CHECK(barrier.count_text() == "1 of 2 nodes is not ready");
  barrier.take("n1", note(NodeState::ready), k_start);
  CHECK(barrier.verdict() == Verdict::ready);
  CHECK(barrier.text().empty());
  CHECK(barrier.count_text().empty());
}

TEST_CASE("the slowest node comes first") {
  Barrier barrier({"n1", "n2", "n3", "n4"}, k_start);
  barrier.take("n1", note(NodeState::staging, 50, 100), k_start);
  barrier.take("n2", note(NodeState::staging, 10, 1024), k_start);
  barrier.take("n3", note(NodeState::begun), k_start);
  barrier.take("n4", note(NodeState::staging, 2048, 0), k_start);
  CHECK(barrier.text() ==
        "4 of 4 nodes are not ready: n3 (waits for its turn), n4 (2.0 KiB read), n2 (0% of 1.0 "
        "KiB), n1 "
        "(50% of 100 B)");
}

TEST_CASE("of many nodes only the slowest are named") {
  std::vector<std::string> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back("c" + std::to_string(i));
  Barrier barrier(nodes, k_start);
  for (int i = 10; i < 1000; ++i)
    barrier.take(nodes[static_cast<std::size_t>(i)], note(NodeState::staging, 1, 2), k_start);
  CHECK(barrier.text() ==
        "1,000 of 1,000 nodes are not ready: c0 (has not begun), c1 (has not begun), c2 (has not "
        "begun) and 997 more");
}

TEST_CASE("one failure is everybody's, and stays") {
  Barrier barrier({"n1", "n2", "n3"}, k_start);
  NodeNote failed = note(NodeState::failed);
  failed.cause = "data.tar: no such file";
  barrier.take("n2", failed, k_start);
  CHECK(barrier.verdict() == Verdict::failed);
  CHECK(barrier.text() == "node n2: data.tar: no such file");
  barrier.take("n2", note(NodeState::ready), k_start);
  CHECK(barrier.verdict() == Verdict::failed);
}

TEST_CASE("a failure that nodes share is one, and others' nodes have a second to say so") {
  Barrier barrier({"n1", "n2", "n3", "n4"}, k_start);
  CHECK_FALSE(barrier.is_gathering(k_start));
  CHECK(barrier.cause().empty());
  NodeNote failed = note(NodeState::failed);
  failed.cause = "data.tar: no such file";
  barrier.take("n2", failed, k_start + 5s);
  CHECK(barrier.is_gathering(k_start + 5s));
  CHECK_FALSE(barrier.is_gathering(k_start + 6s));
  barrier.take("n1", failed, k_start + 5s);
  failed.cause = "no space left";
  barrier.take("n3", failed, k_start + 5s);
  CHECK(barrier.text() == "nodes n1 and n2: data.tar: no such file");
  CHECK(barrier.cause() == "data.tar: no such file");
  barrier.take("n4", note(NodeState::ready), k_start + 5s);
  CHECK_FALSE(barrier.is_gathering(k_start + 5s));  // there is nobody left to wait for
}

TEST_CASE("a node that has not begun is overdue after its time, once") {
  Barrier barrier({"n1", "n2"}, k_start);
  barrier.take("n1", note(NodeState::ready), k_start);
  CHECK(barrier.overdue(k_start + 59s, k_limits).empty());
  CHECK(barrier.overdue(k_start + 60s, k_limits) == std::vector<std::string>{"n2"});
  CHECK(barrier.overdue(k_start + 61s, k_limits).empty());
  CHECK_FALSE(barrier.has_begun("n2"));
  barrier.fail("n2", "has not begun");
  CHECK(barrier.verdict() == Verdict::failed);
  CHECK(barrier.text() == "node n2: has not begun");
}

TEST_CASE("a node that stages and falls silent is overdue; one that is ready may be silent") {
  Barrier barrier({"n1", "n2"}, k_start);
  barrier.take("n1", note(NodeState::ready), k_start);
  barrier.take("n2", note(NodeState::begun), k_start);
  CHECK(barrier.overdue(k_start + 19s, k_limits).empty());
  barrier.take("n2", note(NodeState::staging), k_start + 19s);
  CHECK(barrier.overdue(k_start + 38s, k_limits).empty());
  CHECK(barrier.overdue(k_start + 39s, k_limits) == std::vector<std::string>{"n2"});
  CHECK(barrier.has_begun("n2"));
}

TEST_CASE("a node that speaks while it is asked after is neither failed nor left out") {
  Barrier barrier({"n1", "n2"}, k_start);
  CHECK(barrier.overdue(k_start + 60s, k_limits).size() == 2);
  barrier.take("n2", note(NodeState::begun), k_start + 61s);
  barrier.fail("n2", "silent");
  barrier.leave_out("n2", "silent");
  CHECK(barrier.verdict() == Verdict::open);
  CHECK(barrier.overdue(k_start + 81s, k_limits) == std::vector<std::string>{"n2"});
}

TEST_CASE("what was this node's own fault gives the other its time again") {
  Barrier barrier({"n1", "n2"}, k_start);
  barrier.take("n1", note(NodeState::ready), k_start);
  CHECK(barrier.overdue(k_start + 60s, k_limits).size() == 1);
  CHECK(barrier.is_asked_after("n2"));
  barrier.ask_again("n2", k_start + 61s);
  CHECK(barrier.overdue(k_start + 120s, k_limits).empty());
  CHECK(barrier.overdue(k_start + 121s, k_limits) == std::vector<std::string>{"n2"});
}

TEST_CASE("a note from a node that is not in the job is ignored") {
  Barrier barrier({"n1"}, k_start);
  barrier.take("x", note(NodeState::failed), k_start);
  CHECK(barrier.verdict() == Verdict::open);
}

TEST_CASE("the job goes on without a node that was left out, and says so") {
  Barrier barrier({"n1", "n2"}, k_start);
  barrier.take("n1", note(NodeState::ready), k_start);
  CHECK(barrier.overdue(k_start + 60s, k_limits).size() == 1);
  barrier.leave_out("n2", "has not begun within 60 s");
  CHECK(barrier.verdict() == Verdict::ready);
  CHECK(barrier.text() == "going on without n2: has not begun within 60 s");
  barrier.take("n2", note(NodeState::begun), k_start + 70s);  // too late to be waited for
  CHECK(barrier.verdict() == Verdict::ready);
}

TEST_CASE("listeners are the nodes where a step waits now") {
  Barrier barrier({"n1", "n2", "n3"}, k_start);
  NodeNote waits = note(NodeState::ready);
  waits.waits = 1;
  barrier.take("n3", waits, k_start);
  barrier.take("n2", waits, k_start);
  CHECK(barrier.listeners() == std::vector<std::string>{"n2", "n3"});
  barrier.take("n2", note(NodeState::ready), k_start);
  CHECK(barrier.listeners() == std::vector<std::string>{"n3"});
}

TEST_CASE("nodes that have chosen different entries fail the job, and both are named") {
  const auto chose = [](const char* text) {
    NodeNote made = note(NodeState::ready);
    made.chosen = text;
    return made;
  };
  Barrier barrier({"n1", "n2", "n3"}, k_start);
  barrier.take("n1", chose("start: a.pt"), k_start);
  barrier.take("n2", chose("start: b.pt"), k_start);
  CHECK(barrier.verdict() == Verdict::open);
  barrier.take("n2", note(NodeState::staging), k_start);  // it stages again
  barrier.take("n2", chose("start: a.pt"), k_start);
  barrier.take("n3", chose("start: c.pt"), k_start);
  CHECK(barrier.verdict() == Verdict::failed);
  CHECK(
      barrier.text().starts_with("newest= has not chosen the same on all nodes: n1 has start: "
                                 "a.pt, and n3 has start: c.pt\n"));
  barrier.take("n3", chose("start: a.pt"), k_start);
  CHECK(barrier.verdict() == Verdict::ready);
  CHECK(barrier.text().empty());
}

TEST_CASE("a node that has chosen nothing differs, too; one that is left out does not") {
  NodeNote chosen = note(NodeState::ready);
  chosen.chosen = "start: a.pt";
  Barrier barrier({"n1", "n2"}, k_start);
  barrier.take("n1", chosen, k_start);
  barrier.take("n2", note(NodeState::ready), k_start);
  CHECK(barrier.verdict() == Verdict::failed);
  CHECK(has(barrier.text(), "n2 has nothing"));
  Barrier other({"n1", "n2"}, k_start);
  other.take("n1", chosen, k_start);
  REQUIRE(other.overdue(k_start + 61s, k_limits) == std::vector<std::string>{"n2"});
  other.leave_out("n2", "silent");
  CHECK(other.verdict() == Verdict::ready);
}

TEST_CASE("peers: off by the configuration, and not before a credential has failed") {
  auto loop = must(Loop::create());
  Config config;
  const Peers peers(loop, config);
  CHECK_FALSE(peers.off());
  config.peer.barrier = UseBarrier::off;
  CHECK(peers.off() == std::string("the configuration says so"));
}

TEST_CASE("peers: at a reload, another process looks for the cluster's key") {
  if (skipped_without_root()) return;
  auto loop = Loop::create();
  REQUIRE(loop);
  Config config;
  // Another file for each process that looks.
  config.peer.key_file = "/proc/self/stat";
  config.peer.program = "/bin/false";
  Peers peers(*loop, config);
  int starts = 0;
  peers.start([](const PeerNote&, const std::string&) {},
              [&] { starts += peers.credentials().kind == CredentialState::Kind::unknown; });
  const std::function<void()> reload = [&] {
    if (starts > 1) return loop->stop();
    peers.settings_changed();
    loop->after(std::chrono::milliseconds(50), reload);
  };
  reload();
  loop->after(std::chrono::minutes(5), [&] { loop->stop(); });
  CHECK(loop->run());
  CHECK(starts > 1);
}

TEST_CASE("peers: where the barrier is off no child is started, and a note fails with the cause") {
  auto loop = must(Loop::create());
  Config config;
  config.peer.barrier = UseBarrier::off;
  Peers peers(loop, config);
  int changes = 0;
  peers.start([](const PeerNote&, const std::string&) {}, [&changes] { ++changes; });
  CHECK(changes == 1);
  CHECK(peers.credentials().kind == CredentialState::Kind::off);
  CHECK_FALSE(peers.broken());
  std::string fault;
  peers.send({{"n2"}, "n1", 1, 0, 0, NodeNote{}},
             [&](const std::string&, const PeerFault& sent) { fault = sent.text, loop.stop(); });
  CHECK(loop.run());
  CHECK(fault == "credentials cannot be made now");
}
