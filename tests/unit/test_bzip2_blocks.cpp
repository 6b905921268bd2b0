#include <doctest/doctest.h>

#include <bit>
#include <numeric>

#include "daemon/worker/decode/bzip2_parts.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"
#include "decode_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr unsigned k_values = 254;  // of bytes that occur
constexpr unsigned k_end_symbol =
    k_values + 1;  // of 256 symbols: so a code of 8 bits is the symbol

// What a block with these symbols (2 to 254: places 1 to 253 in the list of what came last) stands
// for.
std::string decoded(const std::vector<unsigned>& symbols) {
  std::vector<unsigned> recent(k_values);
  for (unsigned i = 0; i < k_values; ++i) recent[i] = i;
  std::vector<unsigned> last;
  for (const unsigned symbol : symbols) {
    const auto place = recent.begin() + static_cast<std::ptrdiff_t>(symbol - 1);
    std::rotate(recent.begin(), place, place + 1);
    last.push_back(recent.front());
  }
  std::vector<std::size_t> begin(257);
  for (const unsigned value : last) ++begin[value + 1];
  for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<std::size_t> next(last.size());
  for (std::size_t i = 0; i < last.size(); ++i) next[begin[last[i]]++] = i;
  std::string data;
  unsigned alike = 0;
  std::size_t at = next[0];
  for (std::size_t i = 0; i < last.size(); ++i, at = next[at]) {
    const char c = static_cast<char>(last[at]);
    if (alike == 4) {
      data.append(last[at], data.back());
      alike = 0;
      continue;
    }
    alike = !data.empty() && data.back() == c && alike > 0 ? alike + 1 : 1;
    data += c;
  }
  return data;
}

std::uint32_t checksum(const std::string& data) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : data) {
    crc ^= static_cast<std::uint32_t>(static_cast<unsigned char>(c)) << 24;
    for (int i = 0; i < 8; ++i) crc = crc << 1 ^ (crc >> 31 != 0 ? 0x04c11db7U : 0);
  }
  return ~crc;
}

void append_block(BitString& bits, const std::vector<unsigned>& symbols) {
  bits.append(Bzip2Piece::k_block_number, 48);
  bits.append(checksum(decoded(symbols)), 32);
  bits.append(0, 1);   // not randomised
  bits.append(0, 24);  // where the sorted block begins
  bits.append(0xffff, 16);
  for (int i = 0; i < 15; ++i) bits.append(0xffff, 16);
  bits.append(0xfffc, 16);  // of the values, all but two
  bits.append(2, 3);        // tables
  const auto selectors = static_cast<unsigned>((symbols.size() + 1 + 49) / 50);
  bits.append(selectors, 15);
  for (unsigned i = 0; i < selectors; ++i) bits.append(0, 1);
  for (int table = 0; table < 2; ++table) {
    bits.append(8, 5);
    for (unsigned i = 0; i <= k_end_symbol; ++i) bits.append(0, 1);
  }
  for (const unsigned symbol : symbols) bits.append(symbol, 8);
  bits.append(k_end_symbol, 8);
}

// 300 symbols with these in the middle.
std::vector<unsigned> symbols_with(std::uint64_t number, std::size_t times, unsigned seed) {
  std::vector<unsigned> symbols;
  for (unsigned i = 0; i < 300; ++i) {
    if (i == 150) {
      for (std::size_t n = 0; n < times; ++n)
        for (unsigned shift = 48; shift > 0; shift -= 8)
          symbols.push_back(static_cast<unsigned>(number >> (shift - 8) & 0xff));
    }
    symbols.push_back(2 + (i * 7 + seed) % 250);
  }
  return symbols;
}

BitString header(char level) {
  BitString bits;
  for (const char c : {'B', 'Z', 'h', level}) bits.append(static_cast<unsigned char>(c), 8);
  return bits;
}

std::vector<Bzip2Piece> pieces_of(const std::vector<Slice>& slices) {
  CompressedInput input(0, slices);
  Bzip2Pieces pieces(input);
  std::vector<Bzip2Piece> all;
  while (auto piece = must(pieces.next())) all.push_back(std::move(*piece));
  return all;
}

std::string stream_of(const std::vector<std::vector<unsigned>>& blocks) {
  BitString bits = header('1');
  std::uint32_t sum = 0;
  for (const auto& block : blocks) {
    append_block(bits, block);
    sum = std::rotl(sum, 1) ^ checksum(decoded(block));
  }
  bits.append(Bzip2Piece::k_end_number, 48);
  bits.append(sum, 32);
  return DecodeRun::text(bits.bytes());
}

}  // namespace

TEST_CASE("bits are appended at any place") {
  const std::string data = sample(500);
  const Bytes bytes(reinterpret_cast<const std::byte*>(data.data()), data.size());
  for (unsigned first = 0; first < 17; ++first) {
    for (unsigned before = 0; before < 9; ++before) {
      for (const std::uint64_t count : {0U, 1U, 7U, 8U, 9U, 64U, 1001U, 3900U}) {
        BitString bits;
        bits.append(0x155, before);
        bits.append(bytes, first, count);
        bits.append(0x2a, 6);
        REQUIRE(bits.size() == before + count + 6);
        BitString all;
        all.append(bytes, 0, 8 * bytes.size());
        bool same = bits.number(before + count, 6) == 0x2a;
        for (std::uint64_t i = 0; i < count; ++i)
          same = same && bits.number(before + i, 1) == all.number(first + i, 1);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("a bzip2 block with the number of another block in its data is one block") {
  DecodeRun run;
  for (const std::uint64_t number : {Bzip2Piece::k_block_number, Bzip2Piece::k_end_number}) {
    for (const std::size_t times : {1U, 2U}) {
      const std::vector<std::vector<unsigned>> blocks = {
          symbols_with(number, 0, 1), symbols_with(number, times, 2), symbols_with(number, 0, 3),
          symbols_with(number, times, 5)};
      std::string data;
      for (const auto& block : blocks) data += decoded(block);
      const std::string stream = stream_of(blocks);
      write_file(run.scratch / "y", stream + stream);
      run.prepare("bzip2 -dc y > x");  // so this is what the format means
      REQUIRE((file_text(run.scratch / "x") == data + data));
      run.check_y(data + data);
    }
  }
}

TEST_CASE("a bzip2 block full of other blocks' numbers is refused, not tried for ever") {
  DecodeRun run;
  const std::string full = stream_of({symbols_with(Bzip2Piece::k_block_number, 500, 1)});
  CHECK(has(run.decode_bytes(full).fault, "damaged at byte"));
}

TEST_CASE("a bzip2 stream with a block too few or too many is noticed") {
  DecodeRun run;
  write_file(run.scratch / "x", sample(450'000));
  run.prepare("bzip2 -1c x > y");
  const std::string whole = file_text(run.scratch / "y");
  const std::vector<Slice> slices = {Slice(nullptr, std::as_bytes(std::span(whole)))};
  const std::vector<Bzip2Piece> all = pieces_of(slices);
  REQUIRE(all.size() >= 5);
  CHECK(all.back().position == whole.size());
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<std::size_t>> orders(4, order);
  std::swap(orders[1][1], orders[1][2]);
  orders[2].erase(orders[2].begin() + 1);
  orders[3].insert(orders[3].begin(), 0);
  orders.push_back({order.back()});
  for (const auto& changed : orders) {
    BitString bits = header('1');
    for (const std::size_t i : changed) bits.append(all[i].bits);
    const Decoded decoded = run.decode_bytes(DecodeRun::text(bits.bytes()));
    CHECK(has(decoded.fault, "(bzip2 checksum)") == (changed != order));
  }
}

// Every place is once the end of what was read.
TEST_CASE("input in single bytes, output in a few") {
  DecodeRun run;
  const std::string data = sample(30'000);
  write_file(run.scratch / "x", data);
  for (const auto& packing : k_packings) {
    CAPTURE(std::string(packing.name));
    run.prepare(packing.command);
    const std::string whole = file_text(run.scratch / "y");
    const Bytes bytes = std::as_bytes(std::span(whole));
    std::vector<Slice> single;
    for (std::size_t at = 0; at < bytes.size(); ++at)
      single.emplace_back(nullptr, bytes.subspan(at, 1));
    CompressedInput input(0, single);
    const Coding coding = recognise_coding(bytes);
    const DecodeFaults faults("y", bytes.size(), coding);
    FrameReader reader(input, coding, make_codec(coding), faults);
    std::string got;
    for (std::size_t size = 1; !reader.is_at_end(); size = size % 97 + 1) {
      std::array<std::byte, 97> out{};
      const std::size_t count = reader.fill(std::span(out).first(size));
      REQUIRE(reader.fault());
      got += DecodeRun::text(Bytes(out).first(count));
    }
    CHECK((got == data));
    if (coding != Coding::bzip2) continue;
    BitString bits = header(whole[3]);
    for (const Bzip2Piece& piece : pieces_of(single)) {
      CHECK(piece.first_bit == bits.size() % 8);
      CHECK(piece.offset == bits.size() / 8);
      bits.append(piece.bits);
    }
    CHECK((DecodeRun::text(bits.bytes()) == whole));
  }
}
