// RelayedStage: a staging worker whose sources a FakeRelay relays.
#pragma once

#include <doctest/doctest.h>

#include "fake_relay.hpp"
#include "stage_run.hpp"
#include "tests/unit/sizes.hpp"
#include "texts.hpp"
#include "type_of_file_system.hpp"

namespace nodestage {

inline constexpr std::uint64_t k_head = 2 * k_mib;  // what recognizing a source reads of it

class RelayedStage : public StageRun {
 public:
  std::optional<FakeRelay> relay;

  explicit RelayedStage(std::uint64_t window = 8 * k_mib) {
    order.has_board = true;
    order.relay.least_bytes = 1;
    order.relay.file_systems = {type_of_file_system(data())};
    order.relay.silence_wait_s = 60;  // more than a busy machine keeps a thread waiting
    order.relay.patience_s = 1;
    meanwhile = [this](const std::atomic<bool>& over, int) { relay->run(over); };
    renew(window);
  }

  // For another run of the worker.
  void renew(std::uint64_t window) {
    relay.emplace(window);
    order.relay.window_bytes = window;
    board_fd = relay->board_fd();
    spool_fd = relay->spool_fd();
  }

  // The tree `t`: `mib` MiB in one file that does not compress, and small files.
  void make_tree(unsigned mib) const {
    prepare("mkdir -p t/a && head -c " + std::to_string(mib) +
            "M /dev/urandom >t/large && seq 2000 >t/a/b && for i in $(seq 50); do printf "
            "%${i}d 0 >t/a/$i; done && ln -s b t/a/link");
  }

  // A tar of it is to be staged.
  void add_tar(unsigned mib) {
    make_tree(mib);
    prepare("tar cf t.tar t");
    add("t.tar").destination = "out";
  }

  [[nodiscard]] const ItemRecord& item(std::size_t i = 0) const { return status.items.at(i); }
  [[nodiscard]] bool is_exact() const { return in_job("diff -r --no-dereference out/t ../data/t"); }
  [[nodiscard]] bool is_closed(std::size_t slot) {
    return relay->slot(slot).reader == number(RelayReader::closed);
  }
};

}  // namespace nodestage
