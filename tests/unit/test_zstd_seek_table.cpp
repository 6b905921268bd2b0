#include <doctest/doctest.h>

#include "daemon/worker/decode/zstd_frames.hpp"
#include "hex.hpp"
#include "metered.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

std::optional<std::uint64_t> content_of(const std::string& path) {
  Metered metered;
  auto source = must(Source::open(path, metered.meter));
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
  const Scratch scratch;
  const auto content = [&scratch](const std::string& file) {
    write_file(scratch / "x", file);
    return content_of(scratch / "x");
  };
  const std::string table = encode_seek_table({{3, 1000}, {2, 500}});
  CHECK(content("abcde" + table) == 1500);
  for (const std::string& other : {"abcdef" + table, table.substr(9), std::string("abcde")})
    CHECK(!content(other));
  CHECK(content("abcde" +  // with checksums
                std::string("\x5e\x2a\x4d\x18\x15\0\0\0\5\0\0\0\7\0\0\0cccc\1\0\0\0\x80", 25) +
                "\xb1\xea\x92\x8f") == 7);
}
