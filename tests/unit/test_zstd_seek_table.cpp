#include <doctest/doctest.h>

#include <fstream>

#include "daemon/worker/decode/zstd_frames.hpp"
#include "hex.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

std::optional<std::uint64_t> content_of(const std::string& path) {
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  auto source = must(Source::open(path, meter));
  return must(content_by_seek_table(source));
}

}  // namespace

TEST_CASE("the seek table's bytes") {
  CHECK(hex(encode_seek_table({{0x01020304, 0x05060708}, {9, 10}})) ==
        "5e2a4d1819000000"
        "0403020108070605"
        "090000000a000000"
        "0200000000b1ea928f");
}

TEST_CASE("a table tells the content of its own file only") {
  Scratch scratch;
  const std::string table = encode_seek_table({{3, 1000}, {2, 500}});
  std::ofstream(scratch / "good") << "abcde" << table;
  std::ofstream(scratch / "longer") << "abcdef" << table;
  std::ofstream(scratch / "short") << table.substr(9);
  std::ofstream(scratch / "none") << "abcde";
  std::ofstream(scratch / "with checksums", std::ios::binary)
      << "abcde" << std::string("\x5e\x2a\x4d\x18\x15\0\0\0\5\0\0\0\7\0\0\0cccc\1\0\0\0\x80", 25)
      << "\xb1\xea\x92\x8f";
  CHECK(content_of(scratch / "good") == 1500);
  CHECK(!content_of(scratch / "longer"));
  CHECK(!content_of(scratch / "short"));
  CHECK(!content_of(scratch / "none"));
  CHECK(content_of(scratch / "with checksums") == 7);
}
