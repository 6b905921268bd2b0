#include <doctest/doctest.h>

#include <functional>

#include "daemon/root/nodes/peers.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("peers: off by the configuration, and not before a credential has failed") {
  auto loop = Loop::create();
  REQUIRE(loop);
  Config config;
  const Peers peers(*loop, config);
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
  auto loop = Loop::create();
  REQUIRE(loop);
  Config config;
  config.peer.barrier = UseBarrier::off;
  Peers peers(*loop, config);
  int changes = 0;
  peers.start([](const PeerNote&, const std::string&) {}, [&changes] { ++changes; });
  CHECK(changes == 1);
  CHECK(peers.credentials().kind == CredentialState::Kind::off);
  CHECK_FALSE(peers.broken());
  std::string fault;
  peers.send({{"n2"}, "n1", 1, 0, 0, NodeNote{}},
             [&](const std::string&, const PeerFault& sent) { fault = sent.text, loop->stop(); });
  CHECK(loop->run());
  CHECK(fault == "credentials cannot be made now");
}
