// RelayedNodes: staging workers of a job's nodes with their real relay workers, each a process.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "common/wire/peer_note.hpp"
#include "daemon/worker/relay/relay.hpp"
#include "stage_run.hpp"
#include "texts.hpp"
#include "type_of_file_system.hpp"

namespace nodestage {

class RelayedNode {
 public:
  StageRun stage;

  // `before`: the node before, or null. `data`: a directory of the sources, for its file system.
  RelayedNode(const RelayedNode* before, const std::string& data)
      : before_(before),
        board_(::memfd_create("board", MFD_CLOEXEC)),
        spool_(::memfd_create("spool", MFD_CLOEXEC)),
        plan_(::memfd_create("plan", MFD_CLOEXEC)),
        rate_(::memfd_create("rate", MFD_CLOEXEC)) {
    REQUIRE(::ftruncate(board_.get(), k_relay_board_bytes) == 0);
    stage.order.has_board = true;
    RelayRules& rules = stage.order.relay;
    rules.least_bytes = 1;
    rules.window_bytes = 64 << 20;
    rules.silence_wait_s = rules.patience_s = rules.answer_wait_s = 20;
    rules.ports = {0, 0};
    rules.site_rate_bytes = 0;
    rules.file_systems = {type_of_file_system(data)};
    stage.board_fd = board_.get();
    stage.spool_fd = spool_.get();
  }
  RelayedNode(const RelayedNode&) = delete;
  RelayedNode& operator=(const RelayedNode&) = delete;
  ~RelayedNode() { kill(); }

  void start_relay() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const Fd from(ends[0]);
    Fd to(ends[1]);
    write_plan();
    child_ = start_as_user([&] { return run(to.get()); });
    to = Fd();
    REQUIRE(::read(from.get(), &port_, sizeof port_) == sizeof port_);
  }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    end_of(child_);
    child_ = 0;
  }

 private:
  void write_plan() const {
    RelayPlan plan{.part = before_ == nullptr ? RelayPart::head : RelayPart::link,
                   .key = {1, 2, 3}};
    if (before_ != nullptr) {
      plan.node = "before";
      plan.address = "127.0.0.1";
      plan.port = before_->port_;
    }
    REQUIRE(write_relay_plan(plan_.get(), plan));
  }
  [[nodiscard]] int run(int to) const {
    RelayOrder order;
    order.has_board = true;
    order.relay = stage.order.relay;
    auto relay = Relay::make(order, {board_.get(), spool_.get(), plan_.get(), rate_.get()});
    if (!relay) return 1;
    const std::uint16_t port = (*relay)->listen();
    if (::write(to, &port, sizeof port) != sizeof port) return 2;
    (*relay)->run();
    return 0;
  }

  const RelayedNode* const before_;
  Fd board_;
  Fd spool_;
  Fd plan_;
  Fd rate_;
  pid_t child_ = 0;
  std::uint16_t port_ = 0;
};

// Nodes in a row, of which the first is the head. The sources lie in the first one's data.
class RelayedNodes {
 public:
  explicit RelayedNodes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      nodes_.push_back(std::make_unique<RelayedNode>(i == 0 ? nullptr : nodes_.back().get(),
                                                     i == 0 ? "/tmp" : nodes_[0]->stage.data()));
    nodes_[0]->stage.order.relay.file_systems = nodes_.back()->stage.order.relay.file_systems;
  }
  // The same dataset on all of them.
  void add(const std::string& name, const std::function<void(DatasetItem&)>& change = {}) {
    for (auto& node : nodes_) {
      DatasetItem& item = node->stage.add(nodes_[0]->stage.data() + "/" + name);
      item.destination = "out";
      if (change) change(item);
    }
  }
  void start() {
    for (auto& node : nodes_) node->start_relay();
  }
  RelayedNode& operator[](std::size_t i) { return *nodes_[i]; }
  [[nodiscard]] const ItemRecord& item(std::size_t i) const {
    return nodes_[i]->stage.status.items.at(0);
  }

 private:
  std::vector<std::unique_ptr<RelayedNode>> nodes_;
};

}  // namespace nodestage
