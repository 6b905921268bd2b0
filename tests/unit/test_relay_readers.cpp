// Readers of one source that are slower than others: who waits for whom, and who is dropped.
#include <doctest/doctest.h>

#include "daemon/worker/read/read_ahead.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "relay_run.hpp"
#include "texts.hpp"
#include "type_of_file_system.hpp"

using namespace nodestage;

namespace {

// Stops a reader after so many bytes, until it may go on.
class Stop {
 public:
  explicit Stop(std::uint64_t at) : at_(at) {}
  void operator()(std::uint64_t position) {
    if (position < at_) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_; });
  }
  void end() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

 private:
  const std::uint64_t at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
};

constexpr std::uint64_t k_size = 16 * k_mib;

struct TwoNodes {
  Scratch scratch;
  RelayFile file{scratch / "data", noise(k_size)};
  RelayRow row{2, k_mib};
  Stop stops[2]{Stop(256 * 1024), Stop(256 * 1024)};
  std::string got[2];
  std::thread threads[2];

  TwoNodes() {
    // The first one alone has another reader to think of, and a busy machine can keep that waiting.
    row[0].order.relay.patience_s = 3;
    row.start();
    row.ask(file);
    CHECK(in_time([this] { return row[1].is_in(RelaySlotState::serving); }));
  }
  ~TwoNodes() {
    for (auto& stop : stops) stop.end();
    for (auto& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  }
  void read(std::size_t i) {
    threads[i] = std::thread([this, i] {
      got[i] = read_slot(row[i], k_size, 0, 0, [this, i](std::uint64_t at) { stops[i](at); });
    });
  }
  void end(std::size_t i) {
    stops[i].end();
    threads[i].join();
  }
};

}  // namespace

TEST_CASE("a local reader that keeps a successor waiting is dropped; the successor gets all") {
  TwoNodes at;
  at.stops[1].end();
  at.read(0);
  at.read(1);
  at.threads[1].join();
  CHECK((at.got[1] == at.file.bytes));
  CHECK(at.row[0].reader_is(RelayReader::dropped));
  CHECK(at.row[1].slot().from_storage == 0);
  CHECK(at.row[1].reader_is(RelayReader::reading));
}

TEST_CASE("a successor that keeps the others waiting is dropped, and goes on from the original") {
  TwoNodes at;
  at.stops[0].end();
  at.read(0);
  at.read(1);
  at.threads[0].join();
  CHECK((at.got[0] == at.file.bytes));
  CHECK(at.row[0].reader_is(RelayReader::reading));
  CHECK(at.row[0].slot().from_storage == k_size);
  at.end(1);
  CHECK((at.got[1] == at.file.bytes));
  CHECK(at.row[1].reader_is(RelayReader::reading));
  CHECK(at.row[1].slot().from_nodes > 0);
  CHECK(at.row[1].slot().from_storage == k_size - at.row[1].slot().from_nodes);
}

TEST_CASE("a staging worker that lies about its position harms only itself") {
  const RelayFile file(noise(k_size));
  RelayRow row(2, k_mib);
  row.start([](RelayOrder& order) { order.relay.silence_wait_s = order.relay.patience_s = 60; });
  row[1].ask(file);
  // It has joined, or the beginning would be gone.
  CHECK(in_time([&] { return row[1].slot().from_nodes > 0; }));
  row[0].join();
  row[0].slot().position = UINT64_MAX;
  row[0].slot().watermark = UINT64_MAX;
  row[0].slot().low = UINT64_MAX;
  raise(row[0].board().moves);
  CHECK((read_slot(row[1], k_size) == file.bytes));
  CHECK(row[1].slot().from_storage == 0);
}

// Relay workers and the staging workers that read from them: both sides of the boards.

namespace {

// The staging worker of a node, which reads one file. It reads no more in advance than a quarter of
// the window: a thread that gets no processor meanwhile then finds its block still there.
class NodeReader {
 public:
  NodeReader(RelayNode& node, const RelayFile& file, std::uint64_t window)
      : block_(window / 4 / k_blocks), meter_(rate_, stop_) {
    source_.emplace(must(Source::open(file.path, meter_)));
    node.order.relay.file_systems = {type_of_file_system(file.path)};
    sources_.emplace(node.order.relay, node.board_fd(), node.spool());
    sources_->expect(file.path, source_->info());
    sources_->begin(1);
    item_.emplace(&*sources_, meter_);
  }

  // All of it; `after_block` is told how much there is.
  std::string read(const std::function<void(std::uint64_t)>& after_block = {}) {
    source_->relay(item_->begin(source_->path(), source_->fd(), source_->info(), 0));
    if (source_->relayed() == nullptr) return "not relayed";
    std::string got;
    {
      ReadAhead ahead(*source_, 0, {block_, k_blocks, 4});
      if (!ahead.start()) return "not started";
      for (;;) {
        const auto block = ahead.next();
        if (!block) return block.error().text();
        if (block->empty()) break;
        got.append(reinterpret_cast<const char*>(block->bytes().data()), block->size());
        if (after_block) after_block(got.size());
      }
    }
    item_->add(source_->relayed()->close());
    sources_->end();
    return got;
  }

  [[nodiscard]] std::uint64_t from_storage() const { return meter_.from_storage; }
  [[nodiscard]] std::uint64_t from_nodes() const { return meter_.from_nodes; }
  [[nodiscard]] std::string note() const { return item_->note(); }

 private:
  static constexpr std::size_t k_blocks = 16;

  const std::size_t block_;  // bytes
  RateLimit rate_{-1};
  const std::atomic<bool> stop_ = false;
  Meter meter_;
  std::optional<RelayedSources> sources_;
  std::optional<ItemRelay> item_;
  std::optional<Source> source_;
};

struct Chain {
  const Scratch scratch;
  const RelayFile file{scratch / "data", noise(20 * k_mib + 12345)};
  Tap tap;  // closed until all nodes have joined, or the beginning could be gone
  std::vector<std::unique_ptr<RelayNode>> nodes;
  std::vector<std::unique_ptr<NodeReader>> readers;
  std::vector<std::string> got;

  Chain(std::size_t number, std::uint64_t window, std::uint32_t limit_s = 2) : got(number) {
    tap.open_to(0);
    for (std::size_t i = 0; i < number; ++i) {
      nodes.push_back(std::make_unique<RelayNode>(window, tapped(tap), limit_s));
      readers.push_back(std::make_unique<NodeReader>(*nodes[i], file, window));
      nodes[i]->start();
      i == 0 ? nodes[i]->set_head() : nodes[i]->set_link(*nodes[i - 1]);
    }
  }

  void read(const std::function<void(std::size_t, std::uint64_t)>& after_block = {}) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      threads.emplace_back([this, i, &after_block] {
        got[i] = readers[i]->read([&, i](std::uint64_t bytes) {
          if (after_block) after_block(i, bytes);
        });
      });
    const bool have_joined = in_time([this] {
      return std::all_of(nodes.begin(), nodes.end(),
                         [](auto& node) { return node->is_in(RelaySlotState::serving); });
    });
    tap.open_to(UINT64_MAX);
    for (auto& thread : threads) thread.join();
    REQUIRE(have_joined);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      CAPTURE(i);
      CHECK(got[i].size() == file.bytes.size());
      CHECK((got[i] == file.bytes));
    }
  }
};

}  // namespace

TEST_CASE("each staging worker of a chain gets all of it, and one node reads the original") {
  for (const std::uint64_t window : {2 * k_mib, 8 * k_mib, 64 * k_mib}) {
    CAPTURE(window);
    Chain chain(3, window, 600);
    chain.read();
    CHECK(chain.readers[0]->from_storage() == chain.file.bytes.size());
    CHECK(chain.readers[0]->from_nodes() == 0);
    CHECK(chain.readers[0]->note() == "");
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      CHECK(chain.readers[i]->from_storage() == 0);
      CHECK(chain.readers[i]->from_nodes() == chain.file.bytes.size());
      CHECK(chain.readers[i]->note() == "20.0 MiB from node before");
    }
  }
}

TEST_CASE("when the head's relay ends, its reader and the next node go on from the original") {
  Chain chain(3, 8 * k_mib);
  std::atomic<bool> is_stopped = false;
  chain.read([&](std::size_t node, std::uint64_t bytes) {
    if (node == 0 && bytes > 5 * k_mib && !is_stopped.exchange(true)) chain.nodes[0]->stop();
  });
  CHECK(has(chain.readers[0]->note(), "the process that relays does not answer"));
  CHECK(chain.readers[1]->from_storage() + chain.readers[1]->from_nodes() ==
        chain.file.bytes.size());
  CHECK(chain.readers[1]->from_storage() > 0);
  CHECK(chain.readers[2]->from_storage() == 0);
}
