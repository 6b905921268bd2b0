// Readers of one source that are slower than others: who waits for whom, and who is dropped.
#include <doctest/doctest.h>

#include "relay_run.hpp"

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
  CHECK(in_time([&] { return row[0].is_in(RelaySlotState::serving); }));
  row[0].join();
  row[0].slot().position = UINT64_MAX;
  row[0].slot().watermark = UINT64_MAX;
  row[0].slot().low = UINT64_MAX;
  raise(row[0].board().moves);
  CHECK((read_slot(row[1], k_size) == file.bytes));
  CHECK(row[1].slot().from_storage == 0);
}
