// Relay workers of several nodes in this process, and the staging side of their boards.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/wire/peer_note.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/relay/relay.hpp"
#include "daemon/worker/spool/board.hpp"
#include "scratch.hpp"
#include "tests/unit/sizes.hpp"
#include "texts.hpp"

namespace nodestage {

// A safety net, never part of what is tested.
inline bool in_time(const std::function<bool()>& is_done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A file to relay, with its contents.
struct RelayFile {
  std::string path;
  std::string bytes;
  RelayIdentity identity{};

  // In a directory of its own.
  explicit RelayFile(std::string contents)
      : RelayFile(std::make_shared<Scratch>(), std::move(contents)) {}
  RelayFile(std::string at, std::string contents)
      : path(std::move(at)), bytes(std::move(contents)) {
    std::ofstream(path, std::ios::binary) << bytes;
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    identity = identity_of(info);
  }

 private:
  RelayFile(std::shared_ptr<Scratch> directory, std::string contents)
      : RelayFile(*directory / "data", std::move(contents)) {
    scratch_ = std::move(directory);
  }
  std::shared_ptr<Scratch> scratch_;
};

// A file system that can be made to wait: a tap for the bytes of the original, for each node.
class Tap {
 public:
  void open_to(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    open_ = bytes;
    changed_.notify_all();
  }
  // How many bytes from `offset` on may be read; waits for the first.
  std::uint64_t await(std::uint64_t offset) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ > offset; });
    return open_ - offset;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t open_ = UINT64_MAX;
};

inline OpenOriginal tapped(Tap& tap) {
  class Tapped : public Original {
   public:
    Tapped(std::unique_ptr<Original> original, Tap& tap)
        : original_(std::move(original)), tap_(tap) {}
    Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
      const std::uint64_t most = tap_.await(offset);
      return original_->read_at(offset, into.first(std::min<std::uint64_t>(into.size(), most)));
    }

   private:
    std::unique_ptr<Original> original_;
    Tap& tap_;
  };
  return [&tap](const std::string& path,
                const RelayIdentity& identity) -> Result<std::unique_ptr<Original>> {
    TRY_ASSIGN(auto original, open_original(path, identity));
    return std::unique_ptr<Original>(std::make_unique<Tapped>(std::move(original), tap));
  };
}

class RelayNode {
 public:
  // `limit_s`: after that long another node is silent or slow. On a busy machine any node can be.
  explicit RelayNode(std::uint64_t window = 8 * k_mib, OpenOriginal open = open_original,
                     std::uint32_t limit_s = 20)
      : open_(std::move(open)) {
    order.has_board = true;
    order.relay.least_bytes = 1;
    order.relay.window_bytes = window;
    order.relay.silence_wait_s = limit_s;
    order.relay.patience_s = limit_s;
    order.relay.answer_wait_s = 60;
    order.relay.ports = {0, 0};
    order.relay.file_systems.clear();
    order.relay.site_rate_bytes = 0;
    board_fd_ = Fd(::memfd_create("board", MFD_CLOEXEC));
    REQUIRE(::ftruncate(board_fd_.get(), k_relay_board_bytes) == 0);
    spool_ = scratch_file();
    plan_ = scratch_file();
    rate_ = scratch_file();
    auto mapped = must(Board::map(board_fd_.get()));
    board_ = std::make_unique<Board>(std::move(mapped));
  }
  ~RelayNode() { stop(); }

  std::uint16_t start() {
    auto made =
        Relay::make(order, {board_fd_.get(), spool_.get(), plan_.get(), rate_.get()}, open_);
    REQUIRE(made);
    relay_ = std::move(*made);
    port_ = relay_->listen();
    thread_ = std::thread([this] {
      relay_->run();
      has_ended_ = true;
    });
    return port_;
  }
  void ask_to_stop() {
    if (relay_) relay_->stop();
  }
  // As abruptly as a process that is killed.
  void stop() {
    if (!relay_) return;
    relay_->stop();
    thread_.join();
    relay_.reset();
  }
  void set_head(const RelayKey& key = {1, 2, 3}) {
    set_plan({.part = RelayPart::head, .key = key});
  }
  void set_link(std::uint16_t port, const RelayKey& key = {1, 2, 3}) {
    set_plan({.part = RelayPart::link,
              .key = key,
              .node = "before",
              .address = "127.0.0.1",
              .port = port});
  }
  void set_link(const RelayNode& to) { set_link(to.port()); }
  void set_off(const std::string& why) { set_plan({.part = RelayPart::off, .why = why}); }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] RelayBoard& board() { return **board_; }
  [[nodiscard]] RelaySlot& slot(std::size_t i = 0) { return board().slots[i]; }
  [[nodiscard]] int board_fd() const { return board_fd_.get(); }
  [[nodiscard]] int spool() const { return spool_.get(); }
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  [[nodiscard]] std::uint64_t ring() { return ring_bytes(order.relay.window_bytes, board().lanes); }
  bool is_in(RelaySlotState state, std::size_t i = 0) { return slot(i).state == number(state); }
  bool reader_is(RelayReader reader, std::size_t i = 0) { return slot(i).reader == number(reader); }

  // Waits until the relay worker has looked after all slots once more. It raises `beat` before.
  void await_look() {
    const std::uint32_t seen = board().beat;
    REQUIRE(in_time([&] { return board().beat - seen >= 2; }));
  }

  // In bytes per second, before it reads anything.
  void limit_rate(std::uint64_t rate) const {
    REQUIRE(::pwrite(rate_.get(), &rate, sizeof rate, 0) == static_cast<ssize_t>(sizeof rate));
  }
  void set_lanes(std::uint32_t lanes = 1) { board().lanes = lanes; }
  // As the staging worker does it.
  void ask(const RelayFile& file, std::size_t i = 0) {
    RelaySlot& at = slot(i);
    REQUIRE(exchange(at.state, number(RelaySlotState::unused), number(RelaySlotState::filling)));
    at.identity = file.identity;
    set_field(at.path, file.path);
    at.reader = number(RelayReader::reading);
    at.state = number(RelaySlotState::asked);
    raise(board().asks);
  }
  // Joins a slot that serves already.
  void join(std::size_t i = 0) {
    REQUIRE(exchange(slot(i).reader, number(RelayReader::none), number(RelayReader::reading)));
    raise(board().moves);
  }
  void close(std::size_t i = 0) {
    slot(i).reader = number(RelayReader::closed);
    raise(board().moves);
  }

  RelayOrder order;

 private:
  void set_plan(const RelayPlan& plan) const { REQUIRE(write_relay_plan(plan_.get(), plan)); }
  [[nodiscard]] Fd scratch_file() const {
    Fd fd(::open(scratch_.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    REQUIRE(fd);
    return fd;
  }

  Scratch scratch_;
  OpenOriginal open_;
  Fd board_fd_;
  Fd spool_;
  Fd plan_;
  Fd rate_;
  std::unique_ptr<Board> board_;
  std::unique_ptr<Relay> relay_;
  std::thread thread_;
  std::uint16_t port_ = 0;
  std::atomic<bool> has_ended_ = false;
};

// The staging worker as far as the spool goes: reads a slot from `offset` on, up to `end`, in
// blocks. What it gets; less when the slot is over, or it was dropped.
inline std::string read_slot(RelayNode& node, std::uint64_t size, std::size_t i = 0,
                             std::uint64_t offset = 0,
                             const std::function<void(std::uint64_t)>& after_block = {}) {
  RelaySlot& slot = node.slot(i);
  std::string got;
  std::string block;
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (offset < size && std::chrono::steady_clock::now() < end) {
    const std::uint32_t seen = node.board().news;
    const std::uint64_t bytes = std::min<std::uint64_t>(64 * 1024, size - offset);
    const bool is_over = node.is_in(RelaySlotState::over, i);
    if (node.reader_is(RelayReader::dropped, i)) break;
    if (slot.watermark < offset + bytes) {
      if (is_over) break;
      await_raise(node.board().news, seen, std::chrono::milliseconds(100));
      continue;
    }
    block.resize(bytes);
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t to_end = node.ring() - (offset + done) % node.ring();
      const ssize_t count =
          ::pread(node.spool(), block.data() + done, std::min(bytes - done, to_end),
                  static_cast<off_t>(spool_offset(i, node.ring(), offset + done)));
      if (count <= 0) return got;
      done += static_cast<std::uint64_t>(count);
    }
    if (slot.low > offset) break;
    got += block;
    offset += bytes;
    slot.position = offset;
    raise(node.board().moves);
    if (after_block) after_block(offset);
  }
  return got;
}

// Reads on some nodes side by side, in threads.
class Readers {
 public:
  Readers(const std::vector<RelayNode*>& nodes, const RelayFile& file)
      : nodes_(nodes), file_(file), got_(nodes.size()) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      threads_.emplace_back([this, i] { got_[i] = read_slot(*nodes_[i], file_.bytes.size()); });
  }
  void check_all() {
    for (auto& thread : threads_) thread.join();
    for (std::size_t i = 0; i < got_.size(); ++i) {
      CAPTURE(i);
      CHECK(got_[i].size() == file_.bytes.size());
      CHECK((got_[i] == file_.bytes));
    }
  }

 private:
  const std::vector<RelayNode*> nodes_;
  const RelayFile& file_;
  std::vector<std::string> got_;
  std::vector<std::thread> threads_;
};

// Reads on all nodes side by side, and checks what each got.
inline void read_on_all(const std::vector<RelayNode*>& nodes, const RelayFile& file) {
  // A node that joins when others have read much finds the beginning gone, in a small ring.
  for (auto* node : nodes) CHECK(in_time([&] { return node->is_in(RelaySlotState::serving); }));
  Readers(nodes, file).check_all();
}

// Nodes in a row, of which the first is the head.
class RelayRow {
 public:
  explicit RelayRow(std::size_t count, std::uint64_t window = 8 * k_mib,
                    const std::function<OpenOriginal(std::size_t)>& open = {}) {
    for (std::size_t i = 0; i < count; ++i)
      nodes_.push_back(std::make_unique<RelayNode>(window, open ? open(i) : open_original));
  }
  ~RelayRow() {
    for (auto& node : nodes_) node->ask_to_stop();
  }
  // `change`: of each order, first.
  void start(const std::function<void(RelayOrder&)>& change = {}, std::uint32_t lanes = 1) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      RelayNode& node = *nodes_[i];
      if (change) change(node.order);
      if (i == 0) node.set_head();
      if (i > 0) node.set_link(*nodes_[i - 1]);
      node.start();
      node.set_lanes(lanes);
    }
  }
  void ask(const RelayFile& file) {
    for (auto& node : nodes_) node->ask(file);
  }
  [[nodiscard]] std::vector<RelayNode*> all() const {
    std::vector<RelayNode*> all;
    for (const auto& node : nodes_) all.push_back(node.get());
    return all;
  }
  RelayNode& operator[](std::size_t i) { return *nodes_[i]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  // Of the original, by all of them.
  [[nodiscard]] std::uint64_t from_storage() const {
    std::uint64_t bytes = 0;
    for (const auto& node : nodes_) bytes += node->slot().from_storage;
    return bytes;
  }

 private:
  std::vector<std::unique_ptr<RelayNode>> nodes_;
};

// A row whose first node reads the original through the tap.
inline RelayRow row_behind(Tap& tap, std::size_t count) {
  return RelayRow(count, 8 * k_mib,
                  [&tap](std::size_t i) { return i == 0 ? tapped(tap) : open_original; });
}

}  // namespace nodestage
