// What goes wrong between nodes: each goes on, and at most one more reads the original.
#include <doctest/doctest.h>

#include "relay_peer.hpp"
#include "relay_run.hpp"

using namespace nodestage;

namespace {

// A node whose node before is played by the test, and one behind it. Both must get all.
struct BehindForged {
  RelayFile file{noise(3 * k_mib)};
  RawListener listener;
  RelayNode link;
  RelayNode last;
  RawPeer peer;

  // The link waits no longer than `silence_s` for one that says nothing. The last one need not be
  // given a limit: the link is never silent.
  explicit BehindForged(unsigned silence_s = 1, std::uint64_t window = 8 * k_mib)
      : link(window), last(window), peer(connected(silence_s)) {}
  // What the link has got so far from the test is what it does not read itself.
  void check_goes_on(std::uint64_t from_nodes) {
    Readers({&link, &last}, file).check_all();
    CHECK(link.slot().from_nodes == from_nodes);
    CHECK(link.slot().from_storage == file.bytes.size() - from_nodes);
    CHECK(last.slot().from_storage == 0);
  }

 private:
  RawPeer connected(unsigned silence_s) {
    link.set_link(listener.port);
    for (auto* node : {&link, &last}) {
      node->order.relay.silence_wait_s = node == &link ? silence_s : 60;
      if (node == &last) last.set_link(link);
      node->start();
      node->set_lanes();
      node->ask(file);
    }
    return listener.accept();
  }
};

// The same, once it has asked a node that knows the key.
struct BehindPeer : BehindForged {
  explicit BehindPeer(unsigned silence_s = 1, std::uint64_t window = 8 * k_mib)
      : BehindForged(silence_s, window) {
    peer.meet_as_server();
    const auto ask = peer.hear();
    CHECK(ask.first == RelayMessage::ask);
    CHECK((ask.second == encode_ask({file.path, file.identity, 0})));
  }
  void begin_with(std::size_t bytes) {
    peer.say(RelayMessage::begin);
    if (bytes > 0) peer.say(RelayMessage::data, file.bytes.substr(0, bytes));
  }
};

}  // namespace

TEST_CASE("a node that is killed costs one more reader, from the same offset on") {
  const RelayFile file(noise(8 * k_mib));
  const std::uint64_t size = file.bytes.size();
  for (const std::uint64_t at : {std::uint64_t{0}, size / 2, size - 256 * 1024}) {
    CAPTURE(at);
    Tap tap;
    tap.open_to(at);
    RelayRow row = row_behind(tap, 4);
    row.start();
    row.ask(file);
    Readers readers({&row[0], &row[2], &row[3]}, file);
    CHECK(in_time(
        [&] { return row[3].is_in(RelaySlotState::serving) && row[3].slot().watermark == at; }));
    row[1].stop();
    CHECK(in_time([&] { return row[3].slot().watermark == size; }));
    tap.open_to(UINT64_MAX);
    readers.check_all();
    CHECK(row[0].slot().from_storage == size);
    CHECK(row[1].slot().from_storage == 0);
    CHECK(row[2].slot().from_storage == size - at);
    CHECK(row[2].slot().from_nodes == at);
    CHECK(row[3].slot().from_storage == 0);
  }
}

TEST_CASE("a node before that says nothing, or does not know the key, gives nothing") {
  BehindForged at;
  SUBCASE("it accepts and says nothing") {}
  SUBCASE("it does not know the key") { at.peer.send(std::string(64, 'n') + at.file.bytes); }
  at.check_goes_on(0);
}

TEST_CASE("a node before that says that it is alive is waited for") {
  BehindPeer at(2);
  at.begin_with(1000);
  std::thread alive([&] {
    for (int i = 0; i < 15; ++i) {
      at.peer.say(RelayMessage::alive);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    for (std::size_t from = 1000; from < at.file.bytes.size(); from += 100'000)
      at.peer.say(RelayMessage::data, at.file.bytes.substr(from, 100'000));
    at.peer.say(RelayMessage::end);
  });
  at.check_goes_on(at.file.bytes.size());
  alive.join();
}

TEST_CASE("a node before is not silent while this one has no room for what it sends") {
  BehindPeer at(2, 2 * k_mib);
  const std::uint64_t full = at.link.ring();
  at.begin_with(0);
  for (std::uint64_t from = 0; from < full + 1000; from += 100'000)
    at.peer.say(RelayMessage::data,
                at.file.bytes.substr(from, std::min<std::uint64_t>(100'000, full + 1000 - from)));
  CHECK(in_time([&] { return at.link.slot().watermark == full; }));
  // Nobody reads for longer than the limit; then the next frame takes a moment.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  std::thread later([&] {
    CHECK(in_time([&] { return at.link.slot().watermark == full + 1000; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    for (std::uint64_t from = full + 1000; from < at.file.bytes.size(); from += 100'000)
      at.peer.say(RelayMessage::data, at.file.bytes.substr(from, 100'000));
    at.peer.say(RelayMessage::end);
  });
  at.check_goes_on(at.file.bytes.size());
  later.join();
}

TEST_CASE("a node before that leaves, breaks off, lies or falls silent is gone on without") {
  struct Row {
    const char* what;
    std::size_t begun;  // bytes of data, after it has begun
    std::function<void(BehindPeer&)> act;
  };
  const auto frame_of = [](BehindPeer& at) {
    return at.peer.seal(4, at.file.bytes.substr(5000, 5000));
  };
  const std::vector<Row> rows{
      {"says nothing", 0, [](BehindPeer&) {}},
      {"falls silent in the middle", 1000, [](BehindPeer&) {}},
      {"leaves", 5000,
       [](BehindPeer& at) {
         at.peer.say(RelayMessage::leave, encode_reason("this node was slower than the others"));
       }},
      {"ends early", 5000, [](BehindPeer& at) { at.peer.say(RelayMessage::end); }},
      {"breaks off between frames", 5000, [](BehindPeer& at) { at.peer.close(); }},
      {"breaks off in a frame", 5000,
       [&frame_of](BehindPeer& at) {
         at.peer.send(frame_of(at).substr(0, 3000));
         at.peer.close();
       }},
      {"a flipped bit", 5000,
       [&frame_of](BehindPeer& at) {
         std::string frame = frame_of(at);
         frame[2500] = static_cast<char>(frame[2500] ^ 4);
         at.peer.send(frame);
       }},
      {"an unknown kind", 1000, [](BehindPeer& at) { at.peer.send(at.peer.seal(99, "?")); }}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    BehindPeer at;
    if (row.begun > 0) at.begin_with(row.begun);
    row.act(at);
    at.check_goes_on(row.begun);
  }
}

TEST_CASE("a node before that does not begin gives nothing") {
  BehindPeer at;
  SUBCASE("it refuses") { at.peer.say(RelayMessage::leave, encode_reason("it is not there")); }
  SUBCASE("data come first") { at.peer.say(RelayMessage::data, at.file.bytes.substr(0, 1000)); }
  at.check_goes_on(0);
}

TEST_CASE("of what a node before sends, more than there is is not taken") {
  BehindPeer at;
  at.begin_with(0);
  constexpr std::size_t k_step = 256 * 1024;
  const std::size_t most = at.file.bytes.size() - k_step;
  std::thread sender([&] {
    for (std::size_t from = 0; from < most; from += k_step)
      at.peer.say(RelayMessage::data, at.file.bytes.substr(from, k_step));
    at.peer.say(RelayMessage::data, at.file.bytes.substr(most, 1000));
    at.peer.say(RelayMessage::data, std::string(k_step, 'x'));
  });
  at.check_goes_on(most + 1000);
  sender.join();
}

TEST_CASE("a node before that cannot be reached is gone on without") {
  const RelayFile file(noise(k_mib));
  RelayNode gone;
  const std::uint16_t port = gone.start();
  gone.stop();
  RelayNode link;
  link.start();
  link.set_link(port);
  link.set_lanes();
  link.ask(file);
  Readers({&link}, file).check_all();
  CHECK(link.slot().from_storage == file.bytes.size());
}

TEST_CASE("strangers who prove nothing keep nobody out") {
  const RelayFile file(noise(k_mib));
  RelayRow row(2);
  row[0].order.relay.silence_wait_s = 3;  // also the limit of a handshake
  const std::uint16_t port = row[0].start();
  std::vector<RawPeer> strangers;
  for (unsigned i = 0; i < k_most_unproven + 8; ++i) {
    strangers.push_back(raw_connect(port));
    strangers.back().send("nsrelay1");
  }
  row[0].set_head();
  row[0].set_lanes();
  row[1].order.relay.silence_wait_s = 60;
  row[1].start();
  row[1].set_link(row[0]);
  row[1].set_lanes();
  row.ask(file);
  Readers(row.all(), file).check_all();
  CHECK(row[1].slot().from_storage == 0);
  // Each was sent what it takes to prove the key, and no more.
  for (auto& stranger : strangers) CHECK(stranger.read(1000).empty());
}

TEST_CASE("a successor that vanishes without a word is given up") {
  const RelayFile file(noise(64 * k_mib));
  RelayNode head(k_mib);
  head.order.relay.silence_wait_s = 1;
  const std::uint16_t port = head.start();
  head.set_head();
  head.set_lanes();
  RawPeer gone = raw_connect(port);
  gone.meet_as_client();
  gone.say(RelayMessage::ask, encode_ask({file.path, file.identity, 0}));
  CHECK(gone.hear().first == RelayMessage::begin);
  // Nothing is read from here on, so it is full at some point.
  head.board().staging_is_over = 1;
  CHECK(in_time([&] { return head.has_ended(); }));
  CHECK(head.slot().watermark < file.bytes.size());
}

TEST_CASE("an ask that is out of place, or for what is not relayed, is refused") {
  const RelayFile file(noise(k_mib));
  RelayNode head;
  head.order.relay.least_bytes = k_mib;
  const std::uint16_t port = head.start();
  head.set_head();
  head.set_lanes();
  const auto answer = [&](const RelayAsk& ask) {
    RawPeer peer = raw_connect(port);
    peer.meet_as_client();
    peer.say(RelayMessage::ask, encode_ask(ask));
    return peer.hear();
  };
  const std::pair small{RelayMessage::leave,
                        encode_reason("it is smaller than what is relayed there")};
  CHECK((answer({file.path, {k_mib - 1, 1, 1}, 0}) == small));
  CHECK(answer({"relative", file.identity, 0}).first == RelayMessage{});
  const std::pair begin{RelayMessage::begin, std::string()};
  CHECK((answer({file.path, file.identity, 0}) == begin));
  head.board().staging_is_over = 1;
  const std::pair over{RelayMessage::leave, encode_reason("its staging is over there")};
  CHECK((answer({"/another", file.identity, 0}) == over));
}
