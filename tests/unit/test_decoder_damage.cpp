#include <doctest/doctest.h>

#include "common/text/human.hpp"
#include "decode_run.hpp"
#include "rounds.hpp"

using namespace nodestage;

// Either what is wrong is said, or all is there; but what looks like no further member or frame at
// all is junk, as it is for gzip(1) and the others, and there is a note of it.
static void check_damaged(DecodeRun& run, const std::string& bytes, const std::string& data) {
  write_file(run.scratch / "bad", bytes);
  const Decoded decoded = run.decode("bad");
  const bool is_reported = !decoded.fault.empty() || !decoded.note.empty();
  // Without a magic it is a plain file.
  CHECK((is_reported || decoded.data == data || decoded.data == bytes));
}

TEST_CASE("a flipped bit anywhere is noticed") {
  DecodeRun run;
  const std::string data = sample(250'000);
  write_file(run.scratch / "x", data);
  for (const auto& packing : k_packings) {
    if (std::string_view(packing.command).find("no-check") != std::string_view::npos) continue;
    REQUIRE(run.shell(packing.command) == 0);
    const std::string whole = file_text(run.scratch / "y");
    for (std::size_t i = 0; i < 40; i += k_step) {
      const std::size_t at = i < 12   ? i
                             : i < 24 ? whole.size() - 1 - (i - 12)
                                      : whole.size() / 16 * (i - 23) - i;
      if (at >= whole.size()) continue;
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ 1 << i % 8);
      INFO(std::string(packing.name) << " at " << at << " of " << whole.size());
      check_damaged(run, bad, data);
    }
  }
}

TEST_CASE("a cut anywhere is noticed") {
  DecodeRun run;
  const std::string data = sample(120'000);
  write_file(run.scratch / "x", data);
  for (const auto& packing : k_packings) {
    REQUIRE(run.shell(packing.command) == 0);
    const std::string whole = file_text(run.scratch / "y");
    const bool is_one = std::string_view(packing.command).find("p.*") == std::string_view::npos &&
                        std::string_view(packing.command).find("split") == std::string_view::npos &&
                        std::string_view(packing.command).find("tail") == std::string_view::npos &&
                        std::string_view(packing.name) != "pzstd";
    for (std::size_t i = 1; i <= 40; i += k_step) {
      const std::size_t cut = i <= 20 ? whole.size() - i : whole.size() / 20 * (i - 20) + 12;
      if (cut >= whole.size()) continue;
      write_file(run.scratch / "bad", whole.substr(0, cut));
      const Decoded decoded = run.decode("bad");
      INFO(std::string(packing.name)
           << " cut at " << cut << " of " << whole.size() << ": " << decoded.fault);
      CHECK(data.starts_with(decoded.data));
      if (is_one) CHECK(decoded.fault.find(": cut off after ") != std::string::npos);
      if (!is_one) CHECK((!decoded.fault.empty() || !decoded.note.empty()));
    }
  }
}

TEST_CASE("a fault tells the byte, and comes after what is right before it") {
  DecodeRun run;
  const std::string data = sample(3'000'000);
  write_file(run.scratch / "x", data);
  REQUIRE(run.shell("gzip -c x > y") == 0);
  std::string bad = file_text(run.scratch / "y");
  char& length = bad[bad.size() - 2];  // zlib looks at the checksum before it reads the length
  length = static_cast<char>(length ^ 1);
  write_file(run.scratch / "y", bad);
  const Decoded decoded = run.decode("y");
  CHECK((decoded.data == data));
  const std::string end = human_count(bad.size());
  CHECK(decoded.fault == run.scratch / "y: damaged at byte " + end + " of " + end +
                             " (gzip checksum)\nMake or transfer it again. Test it with: gzip -t " +
                             (run.scratch / "y"));
}

TEST_CASE("gzip headers: their checksum is verified, and unknown flags are refused") {
  DecodeRun run;
  REQUIRE(run.shell("printf abc | gzip -nc > y") == 0);
  const std::string plain = file_text(run.scratch / "y");
  std::string head = plain.substr(0, 10);
  head[3] = 0x1e;
  head.append("\3\0abc", 5);
  head.append("name", 5).append("comment", 8);  // with their NUL
  std::uint32_t crc = 0xffffffffU;
  for (const char c : head) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0);
  }
  crc = ~crc;
  const std::string good =
      head + static_cast<char>(crc & 0xff) + static_cast<char>(crc >> 8 & 0xff) + plain.substr(10);
  write_file(run.scratch / "y", good);
  CHECK(run.decode("y").data == "abc");
  CHECK(run.decode("y").fault == "");
  std::string bad = good;
  bad[16] = 'N';
  write_file(run.scratch / "y", bad);
  CHECK(run.decode("y").fault.find("(gzip header checksum)") != std::string::npos);
  bad = plain;
  bad[3] = 0x20;
  write_file(run.scratch / "y", bad);
  CHECK(run.decode("y").fault.find("unknown flags") != std::string::npos);
}
