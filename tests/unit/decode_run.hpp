// DecodeRun: files made in a scratch directory and decoded in this process.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/worker/decode/decoder.hpp"
#include "piece_run.hpp"
#include "texts.hpp"

struct Decoded {
  std::string data;
  std::string fault;
  std::string note;
};

// The same bytes in every run; text, zeros and noise in turn.
inline std::string sample(std::size_t size) {
  std::string data;
  std::uint64_t state = 88172645463325252ULL;
  while (data.size() < size) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const std::size_t run = state % 5000;
    if (state % 3 == 0) {
      data.append(run, '\0');
    } else if (state % 3 == 1) {
      for (std::size_t i = 0; i < run / 8; ++i)
        data += std::to_string(state % 1000 + i) + " line\n";
    } else {
      for (std::size_t i = 0; i < run; ++i) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        data += static_cast<char>(state >> 24);
      }
    }
  }
  data.resize(size);
  return data;
}

class DecodeRun : public ShellRun {
 public:
  nodestage::DecoderLimits limits{3, std::size_t{32} << 20};

  // As many slices as a consumer may hold are held.
  Decoded decode(const std::string& name) {
    using namespace nodestage;
    Metered metered;
    Decoded result;
    auto source = must(Source::open(scratch / name, metered.meter));
    auto decoder = must(Decoder::open(source, limits));
    std::string peeked;
    if (const auto start = decoder.peek()) peeked = text(*start);
    std::deque<Slice> held;
    for (bool was_round = true;;) {
      auto block = decoder.next();
      if (!block) {
        result.fault = block.error().text();
        const auto again = decoder.next();
        CHECK(!again);
        break;
      }
      if (block->empty()) break;
      CHECK(was_round);
      was_round = block->size() % 512 == 0;
      result.data += text(block->bytes());
      held.push_back(std::move(*block));
      if (held.size() > k_decoder_blocks_held) held.pop_front();
    }
    if (result.fault.empty()) CHECK(metered.meter.bytes_read == source.size());
    CHECK(result.data.starts_with(std::string_view(peeked).substr(0, result.data.size())));
    result.note = decoder.junk() ? "bytes were ignored" : "";
    return result;
  }
  // The same of these bytes, written as the file "y".
  Decoded decode_bytes(const std::string& bytes) {
    write_file(scratch / "y", bytes);
    return decode("y");
  }
  // Checks that these bytes decode to `data`, without a fault or a note.
  void check_decodes(const std::string& bytes, const std::string& data) {
    write_file(scratch / "y", bytes);
    check_y(data);
  }
  // The same of the file "y".
  void check_y(const std::string& data) {
    const Decoded decoded = decode("y");
    CHECK(decoded.fault == "");
    CHECK(decoded.note == "");
    CHECK((decoded.data == data));
  }

  static std::string text(nodestage::Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// How many bytes a codec is given at a time, and how many it has room for.
struct Pieces {
  std::size_t in;
  std::size_t out;
};

// A frame by the codec alone, in such pieces. Nothing: a fault, or it does not end.
inline std::optional<std::string> decode_in_pieces(nodestage::Codec& codec, std::string_view packed,
                                                   const Pieces& pieces) {
  REQUIRE(codec.begin_frame());
  std::string out(pieces.out, '\0');
  std::string all;
  for (;;) {
    const std::string_view in = packed.substr(0, pieces.in);
    const auto step =
        codec.decode(std::as_bytes(std::span(in)), std::as_writable_bytes(std::span(out)));
    if (!step) return std::nullopt;
    REQUIRE(step->consumed <= in.size());
    REQUIRE(step->produced <= pieces.out);
    packed.remove_prefix(step->consumed);
    all.append(out, 0, step->produced);
    if (step->frame_ended) return all;
    if (in.empty() && step->produced == 0) return std::nullopt;
  }
}

// How `x` is coded as `y`, by what a user has; blocks, members and frames of many sizes.
struct Packing {
  const char* name;
  const char* command;
};
inline constexpr std::array k_packings = {
    Packing{"gzip", "gzip -c x > y"},
    Packing{"gzip with a name and its checksums", "gzip -N -c -9 x > y"},
    Packing{"gzip members", "split -b 70001 --filter='gzip -1c' x > y"},
    Packing{"bzip2", "bzip2 -c x > y"},
    Packing{"bzip2, small blocks", "bzip2 -1c x > y"},
    Packing{"bzip2 streams", "split -b 170001 --filter='bzip2 -1c' x > y"},
    Packing{"xz", "xz -0c x > y"},
    Packing{"xz blocks", "xz -0c -T2 --block-size=100000 x > y"},
    Packing{"xz streams", "split -b 300000 --filter='xz -0c' x > y"},
    Packing{"zstd", "zstd -qc x > y"},
    Packing{"zstd, size not told", "zstd -qc < x > y"},
    Packing{"zstd frames, sizes told",
            "rm -f p.*; : > p.; split -b 90001 x p.; for p in p.*; do zstd -qc $p; done > y"},
    Packing{"zstd frames, sizes not told", "split -b 200001 --filter='zstd -qc' x > y"},
    Packing{"zstd frames, no checksums", "split -b 200001 --filter='zstd --no-check -qc' x > y"},
    Packing{"zstd, one frame larger than others",
            "{ head -c 100000 x | zstd -qc; tail -c +100001 x | zstd -qc; } > y"},
    Packing{"pzstd", "rm -f y; pzstd -q -p 2 -c x > y"},
    Packing{"lz4", "lz4 -qc x > y"},
    Packing{"lz4, linked blocks", "lz4 -qc -BD -B4 x > y"},
    Packing{"lz4 frames", "split -b 200001 --filter='lz4 -qc' x > y"},
};
