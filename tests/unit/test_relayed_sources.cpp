// A staging worker whose sources are relayed: what it reads where, and that its trees are exact
// whatever the relay worker does.
#include <doctest/doctest.h>

#include "common/text/human.hpp"
#include "daemon/worker/basis/mounts.hpp"
#include "fake_relay.hpp"
#include "stage_run.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_mib = 1 << 20;

class RelayedStage : public StageRun {
 public:
  FakeRelay relay;

  explicit RelayedStage(std::uint64_t window = 8 * k_mib) : relay(window) {
    const Fd here(::open(data().c_str(), O_PATH | O_CLOEXEC));
    const auto mounts = read_mountinfo();
    REQUIRE(mounts);
    const auto mount = find_mount(*mounts, mount_of(here.get()));
    REQUIRE(mount);
    order.has_board = true;
    order.relay_least_bytes = 1;
    order.relay_window = window;
    order.relay_file_systems = {std::string(mount->type)};
    order.relay_silence_s = 1;
    order.relay_patience_s = 1;
    board_fd = relay.board_fd();
    spool_fd = relay.spool_fd();
    meanwhile = [this](const std::atomic<bool>& over, int) { relay.run(over); };
  }

  // A tree of `mib` MiB that does not compress, with many small files and a few large ones.
  void make_tree(unsigned mib) const {
    const std::string size = std::to_string(mib);
    REQUIRE(in_data("mkdir -p t/a && head -c " + size +
                    "M /dev/urandom >t/large && seq 2000 >t/a/b && for i in $(seq 50); do seq $i "
                    ">t/a/$i; done && ln -s b t/a/link") == 0);
  }

  [[nodiscard]] const ItemRecord& item(std::size_t i = 0) const { return status.items.at(i); }
};

constexpr std::uint64_t k_head = 2 * k_mib;  // what recognizing a source reads of it

}  // namespace

TEST_CASE("an archive that is relayed is read from the spool") {
  RelayedStage stage;
  stage.make_tree(20);
  std::string name = "t.tar";
  SUBCASE("tar") { REQUIRE(stage.in_data("tar cf t.tar t") == 0); }
  SUBCASE("tar.gz") {
    name = "t.tar.gz";
    REQUIRE(stage.in_data("tar czf t.tar.gz t") == 0);
  }
  SUBCASE("tar.zst") {
    name = "t.tar.zst";
    REQUIRE(stage.in_data("tar c t | zstd -q -1 >t.tar.zst") == 0);
  }
  SUBCASE("zip") {
    name = "t.zip";
    REQUIRE(stage.in_data("zip -qry0 t.zip t") == 0);
  }
  stage.add(name).destination = "out";
  REQUIRE(stage.run() == 0);
  CHECK(stage.in_job("diff -r --no-dereference out/t ../data/t"));
  CHECK(stage.relay.asked == 1);
  CHECK(stage.item().bytes_from_nodes == stage.item().bytes_total);
  CHECK(stage.item().bytes_from_storage > 0);
  CHECK(stage.item().bytes_from_storage <= k_head);
  CHECK(stage.item().bytes_read == stage.item().bytes_total);
  CHECK(stage.note() == human_bytes(stage.item().bytes_total) + " from node n0");
  CHECK(stage.relay.board().staging_is_over == 1);
  CHECK(stage.relay.recycled == 1);
}
