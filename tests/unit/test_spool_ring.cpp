// How far a ring is filled, and which reader is dropped. The test moves the clock.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include "daemon/worker/relay/spool_ring.hpp"
#include "daemon/worker/spool/board.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_ring = 1 << 20;
constexpr std::uint64_t k_quarter = k_ring / 4;
constexpr std::chrono::milliseconds k_look{400};  // the most that counts from one look to the next
constexpr auto k_patience = 10 * k_look;

RelayClock::time_point now;

// A ring with a staging worker that reads, and a successor; both at the beginning.
struct TwoReaders {
  explicit TwoReaders(RelayKind kind = RelayKind::file)
      : ring({*board, 0, spool.get(), k_ring, 64 * k_ring, k_patience, [] { return now; }, kind,
              [this] { ++dropped; }}) {
    board->slots[0].reader = number(RelayReader::reading);
    look(0);
  }
  // Fills the ring as far as it goes, `times` times, with so much time before each.
  void look(int times, std::chrono::milliseconds time = k_look) {
    const std::vector<std::byte> block(64 * 1024);
    do {
      now += time;
      while (const std::uint64_t room = ring.await_room(now))
        REQUIRE(ring.write(std::span(block).first(std::min<std::uint64_t>(room, block.size()))));
    } while (--times > 0);
  }
  void move_local(std::uint64_t position) { board->slots[0].position = position; }
  // The staging worker reads all that comes, until the successor holds the ring back.
  void read_until_full() {
    while (ring.watermark() < k_ring) {
      move_local(ring.watermark());
      look(1);
    }
    move_local(k_ring);
  }
  [[nodiscard]] bool is_local_dropped() const {
    return board->slots[0].reader == number(RelayReader::dropped);
  }

  std::unique_ptr<RelayBoard> board = std::make_unique<RelayBoard>();
  Fd spool{::memfd_create("spool", MFD_CLOEXEC)};
  int dropped = 0;
  SpoolRing ring;
  std::unique_ptr<RingReader> successor = ring.join(0);
};

}  // namespace

TEST_CASE("a ring of which nobody reads yet is filled as far as half of it, and stays so") {
  TwoReaders at;
  at.successor.reset();
  at.look(1000);
  CHECK(at.ring.watermark() == k_ring / 2);
  CHECK(at.ring.has_beginning());
  CHECK_FALSE(at.is_local_dropped());
}

TEST_CASE("readers that are equally slow are not dropped, however slow they are") {
  TwoReaders at;
  for (std::uint64_t position = 0; position <= k_ring; position += k_quarter) {
    at.move_local(position);
    at.look(1000);
    CHECK_FALSE(at.is_local_dropped());
    CHECK_FALSE(at.successor->is_dropped());
    at.successor->advance(k_quarter);
  }
}

TEST_CASE("a staging worker that keeps a successor waiting is dropped after half of the patience") {
  TwoReaders at;
  while (at.successor->await(now) == RingReader::State::more) {
    at.successor->advance(64 * 1024);
    at.look(1);
  }
  CHECK(at.ring.watermark() == k_ring);
  at.look(4);
  CHECK_FALSE(at.is_local_dropped());
  at.look(1);
  CHECK(at.is_local_dropped());
  CHECK(at.dropped == 1);
  at.look(1);
  CHECK(at.ring.watermark() > k_ring);
}

TEST_CASE("a successor that keeps the others waiting is dropped after the patience") {
  TwoReaders at;
  at.read_until_full();
  SUBCASE("a look several times a second counts as a whole") {
    at.look(10);
    CHECK_FALSE(at.successor->is_dropped());
    at.look(1);
    CHECK(at.successor->is_dropped());
    CHECK(at.dropped == 1);
    CHECK_FALSE(at.is_local_dropped());
    CHECK(at.ring.watermark() > k_ring);
  }
  SUBCASE("of a pause of the whole machine only a moment counts") {
    at.look(2, std::chrono::hours(1));
    CHECK_FALSE(at.successor->is_dropped());
  }
}

namespace {

// The staging worker reads all that comes. The successor keeps it waiting for `waits` looks, then
// sends enough for `passes` of them; so it goes on until it is dropped or much has come.
bool is_dropped_after_turns(TwoReaders& at, int waits, int passes) {
  while (at.ring.watermark() < 40 * k_ring && !at.successor->is_dropped()) {
    at.move_local(at.ring.watermark());
    at.look(waits);
    for (int i = 0; i < passes && !at.successor->is_dropped(); ++i) {
      at.successor->advance(k_quarter / 2);
      at.look(1);
      at.move_local(at.ring.watermark());
    }
  }
  CHECK_FALSE(at.is_local_dropped());
  return at.successor->is_dropped();
}

}  // namespace

TEST_CASE("one who is a little slower than the others keeps a directory's stream") {
  const auto dropped = [](RelayKind kind, int waits, int passes) {
    TwoReaders at(kind);
    at.read_until_full();
    return is_dropped_after_turns(at, waits, passes);
  };
  CHECK_FALSE(dropped(RelayKind::directory, 2, 4));
  CHECK(dropped(RelayKind::directory, 6, 2));
  CHECK(dropped(RelayKind::directory, 100, 1));
  // Who reads a file goes on alone where it was.
  CHECK(dropped(RelayKind::file, 2, 4));
}

TEST_CASE("what is written wakes who waits for its last byte, and not who waits for more") {
  constexpr std::uint64_t k_part = 64 << 10;
  for (const std::uint64_t from : {std::uint64_t{0}, 3 * k_part, 3 * k_part + 5, 100 * k_ring}) {
    const std::uint64_t to = from + 4 * k_part;
    CAPTURE(from);
    for (std::uint64_t end = from + 1; end <= to; end += 1000)
      CHECK((news_of(from, to) & news_at(end)) != 0);
    CHECK((news_of(from, to) & news_at(to)) != 0);
    for (const std::uint64_t more : {2 * k_part, 4 * k_part, 16 * k_part})
      CHECK((news_of(from, to) & news_at(to + more)) == 0);
  }
  CHECK(news_of(5, 5 + 64 * k_ring) == k_any_news);
  CHECK((news_of(5, 6) & k_any_news) != 0);
}
