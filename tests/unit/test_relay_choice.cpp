// The choice between one read for all nodes and a read on each, by figures.
#include <doctest/doctest.h>

#include "daemon/worker/relay/slot_feed.hpp"
#include "tests/unit/sizes.hpp"

using namespace nodestage;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t k_default = 4 * k_gib;

// All of 64 MiB, at so many bytes per second.
HeadLook head_at_rate(std::uint64_t rate) {
  const double seconds = 64.0 * static_cast<double>(k_mib) / static_cast<double>(rate);
  return {64 * k_mib, 64 * k_mib, 64 * k_mib,
          std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds))};
}

bool reads_alone(std::uint64_t rate, std::uint64_t nodes, std::uint64_t site_rate = k_default) {
  return choose(head_at_rate(rate), nodes, site_rate) == RelayChoice::alone;
}

}  // namespace

TEST_CASE("few nodes on a fast file system read for themselves, without a setting") {
  CHECK(reads_alone(k_gib, 2));
  CHECK(reads_alone(k_gib - k_mib, 4));
  CHECK(reads_alone(600 * k_mib, 6));
  CHECK(choose(head_at_rate(k_gib), 8, k_default) == RelayChoice::relayed);
}

TEST_CASE("a slow source is relayed, for few nodes and for many, whatever the site grants") {
  for (const std::uint64_t rate : {k_mib, 16 * k_mib, 117 * k_mib, 500 * k_mib}) {
    for (const std::uint64_t nodes : {2U, 8U, 64U, 5000U}) {
      CAPTURE(rate);
      CAPTURE(nodes);
      CHECK(choose(head_at_rate(rate), nodes, k_default) == RelayChoice::relayed);
      CHECK(choose(head_at_rate(rate), nodes, UINT64_MAX) == RelayChoice::relayed);
    }
  }
}

TEST_CASE("all nodes together stay within what the site grants") {
  CHECK(reads_alone(k_gib, 64, 100 * k_gib));
  CHECK_FALSE(reads_alone(k_gib, 64, 60 * k_gib));
  CHECK_FALSE(reads_alone(k_gib, 2, k_gib));
  CHECK_FALSE(reads_alone(k_gib, UINT64_MAX, UINT64_MAX - 1));
}

TEST_CASE("0 relays everything, and so does a job of one node, before anything is read") {
  CHECK(choose({64 * k_mib, 0, 0, {}}, 8, 0) == RelayChoice::relayed);
  CHECK(choose({64 * k_mib, 0, 0, {}}, 1, k_default) == RelayChoice::relayed);
  CHECK(choose({64 * k_mib, 0, 0, {}}, 0, k_default) == RelayChoice::relayed);
}

TEST_CASE("a node that may read only slowly relays, before anything is read") {
  CHECK(choose({64 * k_mib, 0, 0, {}}, 2, k_default, 500.0 * k_mib) == RelayChoice::relayed);
  CHECK(choose({64 * k_mib, 0, 0, {}}, 2, k_default, 512.0 * k_mib) == RelayChoice::open);
  CHECK(choose(head_at_rate(k_gib), 2, k_default, 512.0 * k_mib) == RelayChoice::alone);
}

TEST_CASE("what comes faster than a file system gives it was in memory, and counts for the relay") {
  CHECK(reads_alone(5 * k_gib, 2, 100 * k_gib));
  CHECK_FALSE(reads_alone(8 * k_gib, 2, 100 * k_gib));
  CHECK(choose({8 * k_mib, 8 * k_mib, 8 * k_mib, {}}, 2, UINT64_MAX) == RelayChoice::relayed);
}

TEST_CASE("it waits for the figures, but no longer than a file system that is fast enough takes") {
  CHECK(choose({64 * k_mib, k_mib, k_mib, milliseconds(1)}, 2, k_default) == RelayChoice::open);
  CHECK(choose({64 * k_mib, k_mib, k_mib, milliseconds(124)}, 2, k_default) == RelayChoice::open);
  CHECK(choose({64 * k_mib, k_mib, k_mib, milliseconds(126)}, 2, k_default) ==
        RelayChoice::relayed);
}

TEST_CASE("sources that are read side by side are counted together") {
  const HeadLook one{64 * k_mib, 64 * k_mib, 128 * k_mib, milliseconds(100)};
  CHECK(choose(one, 3, k_default) == RelayChoice::alone);
  CHECK(choose(one, 4, k_default) == RelayChoice::relayed);
  // Another one's file system does not make this one's fast.
  CHECK(choose({64 * k_mib, 64 * k_mib, 700 * k_mib, seconds(1)}, 4, k_default) ==
        RelayChoice::relayed);
  CHECK(choose({64 * k_mib, 10 * k_mib, 110 * k_mib, milliseconds(160)}, 4, k_default) ==
        RelayChoice::relayed);
}

TEST_CASE("an eighth of a source is read for it, within bounds and within the ring") {
  CHECK(bytes_to_measure(100 * k_gib, 4 * k_gib) == 64 * k_mib);
  CHECK(bytes_to_measure(256 * k_mib, 4 * k_gib) == 32 * k_mib);
  CHECK(bytes_to_measure(64 * k_mib, 4 * k_gib) == 8 * k_mib);
  CHECK(bytes_to_measure(3 * k_mib, 4 * k_gib) == 3 * k_mib);
  CHECK(bytes_to_measure(100 * k_gib, 64 * k_mib) == 16 * k_mib);
}

TEST_CASE("the user sees for how many nodes the file system is fast enough") {
  CHECK(alone_text(head_at_rate(k_gib), 8) ==
        "it is fast enough for all 8 nodes (1.0 GiB/s to the first)");
}
