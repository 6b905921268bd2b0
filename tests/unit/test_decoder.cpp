#include <doctest/doctest.h>

#include "decode_run.hpp"

using namespace nodestage;

TEST_CASE("every coding decodes to what was packed") {
  DecodeRun run;
  for (const std::size_t size : {0U, 1U, 511U, 70'000U, 1'300'000U}) {
    const std::string data = sample(size);
    write_file(run.scratch / "x", data);
    for (const auto& packing : k_packings) {
      REQUIRE(run.shell(packing.command) == 0);
      for (const unsigned threads : {1U, 3U}) {
        INFO(std::string(packing.name) << ", " << size << " bytes, " << threads << " threads");
        run.limits.threads = threads;
        const Decoded decoded = run.decode("y");
        CHECK(decoded.fault == "");
        CHECK(decoded.note == "");
        CHECK((decoded.data == data));
      }
    }
  }
}

TEST_CASE("plain files come as they are") {
  DecodeRun run;
  for (const std::size_t size : {1U, 512U, 1U << 20, (1U << 20) + 1, 7'000'000U}) {
    const std::string data = sample(size);
    write_file(run.scratch / "y", data);
    const Decoded decoded = run.decode("y");
    CHECK(decoded.fault == "");
    CHECK((decoded.data == data));
  }
}

// The members of bgzip: gzip's, with a field that tells their size.
static std::string blocked_gzip(const DecodeRun& run, const std::string& data, std::size_t block) {
  write_file(run.scratch / "x", data);
  REQUIRE(run.shell("rm -f m.*; split -a 4 -b " + std::to_string(block) +
                    " --filter='gzip -nc > $FILE' x m.; gzip -nc < /dev/null > m.zzzz") == 0);
  std::string all;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run.scratch.path()))
    if (entry.path().filename().string().starts_with("m.")) names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  for (const auto& name : names) {
    std::string member = file_text(name);
    const std::size_t size = member.size() + 8 - 1;
    member[3] = 4;
    member.insert(10, std::string("\6\0BC\2\0", 6) + static_cast<char>(size & 0xff) +
                          static_cast<char>(size >> 8));
    all += member;
  }
  return all;
}

TEST_CASE("bgzip's members, alone and among others") {
  DecodeRun run;
  const std::string data = sample(2'000'000);
  const std::string blocked = blocked_gzip(run, data, 60'000);
  write_file(run.scratch / "y", blocked);
  Decoded decoded = run.decode("y");
  CHECK(decoded.fault == "");
  CHECK((decoded.data == data));
  REQUIRE(
      run.shell("cp y z; gzip -c x >> y; cat z >> y; gzip -c x >> y; head -c 100 /dev/zero >> y") ==
      0);
  decoded = run.decode("y");
  CHECK(decoded.fault == "");
  CHECK(decoded.note == "");
  CHECK((decoded.data == data + data + data + data));
  REQUIRE(run.shell("gzip -t z") == 0);
  // A size that is a lie is the decoder's to notice.
  for (const std::size_t at : {16U, 17U}) {
    std::string bad = blocked;
    bad[at] = static_cast<char>(bad[at] ^ 0x04);
    write_file(run.scratch / "y", bad);
    decoded = run.decode("y");
    CHECK((decoded.fault != "" || decoded.data == data));
  }
}

TEST_CASE("very small and empty frames, members and streams, and padding") {
  DecodeRun run;
  for (const std::string coder : {"gzip", "bzip2", "xz", "zstd -q", "lz4 -q"}) {
    CAPTURE(coder);
    REQUIRE(run.shell("printf abc | " + coder + " -c > one; " + coder + " -c < /dev/null > none; " +
                      "for i in $(seq 100); do cat one one none; done > y; cat none y none > z; "
                      "head -c 400000 /dev/zero >> z; cat one >> z; echo junk >> z") == 0);
    std::string data;
    for (int i = 0; i < 200; ++i) data += "abc";
    Decoded decoded = run.decode("y");
    CHECK(decoded.fault == "");
    CHECK((decoded.data == data));
    decoded = run.decode("z");
    CHECK(decoded.fault == "");
    CHECK((decoded.data == data + "abc"));
    CHECK(decoded.note.find("ignored") != std::string::npos);
  }
}

TEST_CASE("a block that becomes far larger (bzip2)") {
  DecodeRun run;
  REQUIRE(run.shell("{ head -c 48000000 /dev/zero; echo end; } > x; bzip2 -c x > y") == 0);
  const Decoded decoded = run.decode("y");
  CHECK(decoded.fault == "");
  CHECK((decoded.data == file_text(run.scratch / "x")));
}

TEST_CASE("a window that is too large is refused (zstd)") {
  DecodeRun run;
  REQUIRE(run.shell("seq 1000 | zstd -1 -q --long=28 -c > y") == 0);
  const Decoded decoded = run.decode("y");
  CHECK(decoded.data == "");
  CHECK(decoded.fault.find("y: needs too much memory to decode: its window is too large\n") !=
        std::string::npos);
}

TEST_CASE("a decoder can go at any time, and can be stopped") {
  DecodeRun run;
  write_file(run.scratch / "x", sample(2'600'000));
  for (const auto& packing : k_packings) {
    CAPTURE(std::string(packing.name));
    REQUIRE(run.shell(packing.command) == 0);
    for (const int blocks : {0, 1, 3}) {
      RateLimit rate(-1);
      std::atomic<bool> stop = false;
      Meter meter(rate, stop);
      auto source = Source::open(run.scratch / "y", meter);
      REQUIRE(source);
      auto decoder = Decoder::open(*source, run.limits);
      REQUIRE(decoder);
      Slice held;
      for (int i = 0; i < blocks; ++i) {
        auto block = decoder->next();
        REQUIRE(block);
        held = *block;
      }
      if (blocks == 1) {
        stop = true;
        const auto block = decoder->next();
        REQUIRE(!block);
        CHECK(is_stopped(block.error()));
      }
      decoder = Error{0, "gone"};
      if (blocks > 0) CHECK(DecodeRun::text(held.bytes()).size() == held.size());
    }
  }
}
