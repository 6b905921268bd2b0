// Gzip members with blocks of many kinds and sizes, and contents of many kinds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/worker/gzip/inflater.hpp"
#include "decode_run.hpp"
#include "zip_bytes.hpp"

namespace gzip_bytes {

struct Packed {
  const char* name;
  int level = 6;
  int memory = 8;  // the less, the smaller are the blocks
  int strategy = Z_DEFAULT_STRATEGY;
  int flush = Z_NO_FLUSH;  // each so many bytes
  std::size_t each = 20'000;
};

inline constexpr std::array k_packed = {
    Packed{"level 1", 1},
    Packed{"level 6", 6},
    Packed{"level 9", 9},
    Packed{"stored only", 0},
    Packed{"small blocks", 6, 1},
    Packed{"large blocks", 6, 9},
    Packed{"fixed codes only", 6, 8, Z_FIXED},
    Packed{"literals only", 6, 8, Z_HUFFMAN_ONLY},
    Packed{"runs only", 6, 8, Z_RLE},
    Packed{"empty stored blocks between", 6, 8, Z_DEFAULT_STRATEGY, Z_SYNC_FLUSH},
    Packed{"full flushes", 3, 2, Z_DEFAULT_STRATEGY, Z_FULL_FLUSH, 7'000},
    Packed{"empty fixed blocks between", 6, 8, Z_DEFAULT_STRATEGY, Z_PARTIAL_FLUSH, 3'000},
};

// The deflate data alone.
inline std::string deflated(const std::string& data, const Packed& packed) {
  std::string out;
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, packed.level, Z_DEFLATED, -MAX_WBITS, packed.memory,
                         packed.strategy) == Z_OK);
  std::array<char, 10'000> some{};
  for (std::size_t at = 0;;) {
    const std::size_t rest = data.size() - at;
    const bool is_end = packed.flush == Z_NO_FLUSH || rest <= packed.each;
    std::string in = data.substr(at, is_end ? rest : packed.each);
    at += in.size();
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(some.data());
      stream.avail_out = static_cast<uInt>(some.size());
      ::deflate(&stream, is_end ? Z_FINISH : packed.flush);
      out.append(some.data(), some.size() - stream.avail_out);
    } while (stream.avail_out == 0);
    if (is_end) break;
  }
  ::deflateEnd(&stream);
  return out;
}

// Whole blocks, none of which is the last one or needs what precedes it.
inline std::string flushed(const std::string& data) {
  std::string out(data.size() / 500 + 1'000, '\0');
  std::string in = data;
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(::deflate(&stream, Z_FULL_FLUSH) == Z_OK);
  REQUIRE(stream.avail_out > 0);
  out.resize(out.size() - stream.avail_out);
  ::deflateEnd(&stream);
  return out;
}

inline std::string member(const std::string& data, const Packed& packed) {
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + deflated(data, packed) +
         zip_bytes::little(nodestage::crc32_of(std::as_bytes(std::span(data))), 4) +
         zip_bytes::little(data.size() & 0xffffffffU, 4);
}

inline std::uint64_t next_random(std::uint64_t& state) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

inline std::string words(std::size_t size) {
  std::string data;
  std::uint64_t state = 0x2545f4914f6cdd1dULL;
  while (data.size() < size) data += "word" + std::to_string(next_random(state) % 500) + ' ';
  data.resize(size);
  return data;
}

// As a tar of images: noise after heads that are alike.
inline std::string images(std::size_t size) {
  const std::string all = noise(size);
  std::string data;
  for (std::size_t at = 0; data.size() < size; at += 20'480)
    data += std::string(100, 'n') + std::to_string(at) + std::string(400, '\0') +
            all.substr(at % size, 20'480);
  data.resize(size);
  return data;
}

}  // namespace gzip_bytes
