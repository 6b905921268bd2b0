#include <doctest/doctest.h>

#include "common/build_info.hpp"
#include "daemon/root/nodes/peers.hpp"

using namespace nodestage;

TEST_CASE("peers: off by the configuration, and in a build without MUNGE") {
  auto loop = Loop::create();
  REQUIRE(loop);
  Config config;
  const Peers peers(*loop, config);
  const auto off = peers.off();
  if (k_with_munge)
    CHECK_FALSE(off);
  else
    CHECK(off == std::string("nodestaged was built without MUNGE"));
  config.peer.barrier = UseBarrier::off;
  CHECK(peers.off() == std::string("the configuration says so"));
}

TEST_CASE("peers: without MUNGE no child is started, and a note fails with the cause") {
  if (k_with_munge) return;
  auto loop = Loop::create();
  REQUIRE(loop);
  const Config config;
  Peers peers(*loop, config);
  peers.start([](const PeerNote&, const std::string&) {});
  CHECK_FALSE(peers.broken());
  std::string fault;
  peers.send({{"n2"}, "n1", 1, 0, 0, NodeNote{}},
             [&](const std::string&, const PeerFault& sent) { fault = sent.text, loop->stop(); });
  CHECK(loop->run());
  CHECK(fault == "credentials cannot be made now");
}
