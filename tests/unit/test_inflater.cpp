#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/worker/gzip/inflater.hpp"
#include "zip_bytes.hpp"

using namespace nodestage;
using State = Inflater::State;
using zip_bytes::deflated;

namespace {

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string some_text() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * i % 977) + ' ';
  return text;
}

// Deflate data and a gzip trailer of these numbers.
std::string with_trailer(const std::string& text, std::uint32_t crc, std::size_t size) {
  return deflated(text) + zip_bytes::little(crc, 4) + zip_bytes::little(size, 4);
}

struct Run {
  State state;
  std::string text;
  std::size_t input_left;
};

// Gives the input in pieces.
Run run(Inflater::Trailer trailer, const std::string& input, std::size_t piece, std::size_t room) {
  Inflater inflater;
  inflater.begin(trailer);
  Run all{State::open, "", 0};
  std::vector<std::byte> out(room);
  for (std::size_t at = 0; at < input.size() && all.state == State::open; at += piece) {
    const std::size_t count = std::min(piece, input.size() - at);
    inflater.give(bytes_of(input).subspan(at, count));
    do {
      inflater.set_room(out);
      all.state = inflater.run();
      all.text.append(reinterpret_cast<const char*>(out.data()), room - inflater.room_left());
    } while (all.state == State::open && inflater.room_left() == 0);
    all.input_left = inflater.input_left() + input.size() - at - count;
  }
  return all;
}

struct Whole {
  State state;
  std::size_t input_left;
  std::size_t room_left;
};

Whole run_whole(Inflater::Trailer trailer, const std::string& input, std::size_t room) {
  Inflater inflater;
  inflater.begin(trailer);
  std::vector<std::byte> out(room + 1);
  inflater.give(bytes_of(input));
  inflater.set_room(std::span(out).first(room));
  const State state = inflater.run_whole();
  return {state, inflater.input_left(), inflater.room_left()};
}

}  // namespace

TEST_CASE("inflater: pieces of any size, and what follows the data is left") {
  const std::string text = some_text();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
    CAPTURE(piece);
    const Run raw = run(Inflater::Trailer::none, deflated(text) + "behind", piece, 1000);
    CHECK(raw.state == State::ended);
    CHECK(raw.text == text);
    CHECK(raw.input_left == 6);
    const std::string good = with_trailer(text, zip_bytes::crc32(text), text.size());
    const Run gzip = run(Inflater::Trailer::gzip, good + "behind", piece, 1000);
    CHECK(gzip.state == State::ended);
    CHECK(gzip.text == text);
    CHECK(gzip.input_left == 6);
  }
}

TEST_CASE("inflater: a wrong trailer is a wrong checksum, other bytes are damaged data") {
  const std::string text = some_text();
  const std::uint32_t crc = zip_bytes::crc32(text);
  const auto state_of = [](const std::string& input) {
    return run(Inflater::Trailer::gzip, input, 100, 1000).state;
  };
  CHECK(state_of(with_trailer(text, crc ^ 1, text.size())) == State::wrong_checksum);
  CHECK(state_of(with_trailer(text, crc, text.size() + 1)) == State::wrong_checksum);
  CHECK(state_of("\xff\xff\xff\xff") == State::damaged);
  CHECK(run(Inflater::Trailer::none, "\xff\xff\xff\xff", 100, 1000).state == State::damaged);
  CHECK(state_of(deflated(text)) == State::open);
}

TEST_CASE("inflater: the whole at once") {
  const std::string text = some_text();
  const std::string packed = deflated(text);
  const auto whole = [&](const std::string& input, std::size_t room) {
    return run_whole(Inflater::Trailer::none, input, room);
  };
  const Whole good = whole(packed, text.size());
  CHECK(good.state == State::ended);
  CHECK(good.input_left == 0);
  CHECK(good.room_left == 0);
  CHECK(whole(packed + "behind", text.size()).input_left == 6);
  CHECK(whole(packed, text.size() + 3).room_left == 3);
  CHECK(whole(packed, text.size() - 1).state == State::no_room);
  CHECK(whole(packed.substr(0, packed.size() / 2), text.size()).state == State::no_input);
  CHECK(whole("\xff\xff\xff\xff", 100).state == State::damaged);
  CHECK(whole(deflated(""), 0).state == State::ended);
  const std::string wrong = with_trailer(text, 0, text.size());
  CHECK(run_whole(Inflater::Trailer::gzip, wrong, text.size()).state == State::wrong_checksum);
}

TEST_CASE("inflater: one is used again after each end, also after a fault") {
  Inflater inflater;
  const std::string text = some_text();
  const std::string packed = deflated(text);
  for (const bool damaged : {false, true, false}) {
    inflater.begin(Inflater::Trailer::none);
    std::vector<std::byte> out(text.size());
    const std::string input = damaged ? "\xff\xff" : packed;
    inflater.give(bytes_of(input));
    inflater.set_room(out);
    CHECK(inflater.run_whole() == (damaged ? State::damaged : State::ended));
  }
}

TEST_CASE("inflater: the CRC-32 is that of gzip and zip, in parts as well") {
  CHECK(crc32_of(bytes_of("123456789")) == 0xcbf43926U);
  CHECK(crc32_of(bytes_of("6789"), crc32_of(bytes_of("12345"))) == 0xcbf43926U);
  CHECK(crc32_of({}) == 0);
  CHECK(crc32_of({}, 12) == 12);
}
