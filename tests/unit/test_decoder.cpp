#include <doctest/doctest.h>

#include <new>

#include "common/text/human.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "decode_run.hpp"
#include "rounds.hpp"
#include "texts.hpp"
#include "zip_bytes.hpp"

using namespace nodestage;

TEST_CASE("every coding decodes to what was packed") {
  DecodeRun run;
  for (const std::size_t size : {0U, 1U, 511U, 70'000U, 1'300'000U}) {
    const std::string data = sample(size);
    write_file(run.scratch / "x", data);
    for (const auto& packing : k_packings) {
      run.prepare(packing.command);
      for (const unsigned threads : {1U, 3U}) {
        INFO(std::string(packing.name) << ", " << size << " bytes, " << threads << " threads");
        run.limits.threads = threads;
        run.check_y(data);
      }
    }
  }
}

TEST_CASE("plain files come as they are") {
  DecodeRun run;
  for (const std::size_t size : {1U, 512U, 1U << 20, (1U << 20) + 1, 7'000'000U})
    run.check_decodes(sample(size), sample(size));
}

// The members of bgzip: gzip's, with a field that tells their size.
static std::string blocked_gzip(const DecodeRun& run, const std::string& data, std::size_t block) {
  write_file(run.scratch / "x", data);
  run.prepare("rm -f m.*; split -a 4 -b " + std::to_string(block) +
              " --filter='gzip -nc > $FILE' x m.; gzip -nc < /dev/null > m.zzzz");
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
  run.check_decodes(blocked, data);
  run.prepare("cp y z; gzip -c x >> y; cat z >> y; gzip -c x >> y; head -c 100 /dev/zero >> y");
  run.check_y(data + data + data + data);
  run.prepare("gzip -t z");
  // A size that is a lie is the decoder's to notice.
  for (const std::size_t at : {16U, 17U}) {
    std::string bad = blocked;
    bad[at] = static_cast<char>(bad[at] ^ 0x04);
    const Decoded decoded = run.decode_bytes(bad);
    CHECK((decoded.fault != "" || decoded.data == data));
  }
}

TEST_CASE("very small and empty frames, members and streams, and padding") {
  DecodeRun run;
  for (const std::string coder : {"gzip", "bzip2", "xz", "zstd -q", "lz4 -q"}) {
    CAPTURE(coder);
    run.prepare("printf abc | " + coder + " -c > one; " + coder + " -c < /dev/null > none; " +
                "for i in $(seq 100); do cat one one none; done > y; cat none y none > z; "
                "head -c 400000 /dev/zero >> z; cat one >> z; echo junk >> z");
    std::string data;
    for (int i = 0; i < 200; ++i) data += "abc";
    run.check_y(data);
    const Decoded decoded = run.decode("z");
    CHECK(decoded.fault == "");
    CHECK((decoded.data == data + "abc"));
    CHECK(has(decoded.note, "ignored"));
  }
}

TEST_CASE("a block that becomes far larger (bzip2)") {
  DecodeRun run;
  run.prepare("{ head -c 48000000 /dev/zero; echo end; } > x; bzip2 -c x > y");
  run.check_y(file_text(run.scratch / "x"));
}

TEST_CASE("a window that is too large is refused (zstd)") {
  DecodeRun run;
  run.prepare("seq 1000 | zstd -1 -q --long=28 -c > y");
  const Decoded decoded = run.decode("y");
  CHECK(decoded.data == "");
  CHECK(has(decoded.fault, "y: needs too much memory to decode: its window is too large\n"));
}

TEST_CASE("a decoder can go at any time, and can be stopped") {
  DecodeRun run;
  write_file(run.scratch / "x", sample(2'600'000));
  for (const auto& packing : k_packings) {
    CAPTURE(std::string(packing.name));
    run.prepare(packing.command);
    for (const int blocks : {0, 1, 3}) {
      Metered metered;
      auto source = must(Source::open(run.scratch / "y", metered.meter));
      auto decoder = Decoder::open(source, run.limits);
      REQUIRE(decoder);
      Slice held;
      for (int i = 0; i < blocks; ++i) {
        held = must(decoder->next());
      }
      if (blocks == 1) {
        metered.stop = true;
        CHECK(is_stopped(must_fail(decoder->next())));
      }
      decoder = Error{0, "gone"};
      if (blocks > 0) CHECK(DecodeRun::text(held.bytes()).size() == held.size());
    }
  }
}

// Either what is wrong is said, or all is there; but what looks like no further member or frame at
// all is junk, as it is for gzip(1) and the others, and there is a note of it.
static void check_damaged(DecodeRun& run, const std::string& bytes, const std::string& data) {
  const Decoded decoded = run.decode_bytes(bytes);
  const bool is_reported = !decoded.fault.empty() || !decoded.note.empty();
  // Without a magic it is a plain file.
  CHECK((is_reported || decoded.data == data || decoded.data == bytes));
}

TEST_CASE("a flipped bit anywhere is noticed") {
  DecodeRun run;
  const std::string data = sample(250'000);
  write_file(run.scratch / "x", data);
  for (const auto& packing : k_packings) {
    if (has(packing.command, "no-check")) continue;
    run.prepare(packing.command);
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
    run.prepare(packing.command);
    const std::string whole = file_text(run.scratch / "y");
    const bool is_one = !has(packing.command, "p.*") && !has(packing.command, "split") &&
                        !has(packing.command, "tail") && packing.name != std::string("pzstd");
    for (std::size_t i = 1; i <= 40; i += k_step) {
      const std::size_t cut = i <= 20 ? whole.size() - i : whole.size() / 20 * (i - 20) + 12;
      if (cut >= whole.size()) continue;
      const Decoded decoded = run.decode_bytes(whole.substr(0, cut));
      INFO(std::string(packing.name)
           << " cut at " << cut << " of " << whole.size() << ": " << decoded.fault);
      CHECK(data.starts_with(decoded.data));
      if (is_one) CHECK(has(decoded.fault, ": cut off after "));
      if (!is_one) CHECK((!decoded.fault.empty() || !decoded.note.empty()));
    }
  }
}

TEST_CASE("a fault tells the byte, and comes after what is right before it") {
  DecodeRun run;
  const std::string data = sample(3'000'000);
  write_file(run.scratch / "x", data);
  run.prepare("gzip -c x > y");
  std::string bad = file_text(run.scratch / "y");
  char& length = bad[bad.size() - 2];  // zlib looks at the checksum before it reads the length
  length = static_cast<char>(length ^ 1);
  const Decoded decoded = run.decode_bytes(bad);
  CHECK((decoded.data == data));
  const std::string end = human_count(bad.size());
  CHECK(decoded.fault == run.scratch / "y: damaged at byte " + end + " of " + end +
                             " (gzip checksum)\nMake or transfer it again. Test it with: gzip -t " +
                             (run.scratch / "y"));
}

TEST_CASE("gzip headers: their checksum is verified, and unknown flags are refused") {
  DecodeRun run;
  run.prepare("printf abc | gzip -nc > y");
  const std::string plain = file_text(run.scratch / "y");
  std::string head = plain.substr(0, 10);
  head[3] = 0x1e;
  head.append("\3\0abc", 5);
  head.append("name", 5).append("comment", 8);  // with their NUL
  const std::string crc = zip_bytes::little(zip_bytes::crc32(head), 2);
  const std::string good = head + crc + plain.substr(10);
  run.check_decodes(good, "abc");
  std::string bad = good;
  bad[16] = 'N';
  CHECK(has(run.decode_bytes(bad).fault, "(gzip header checksum)"));
  bad = plain;
  bad[3] = 0x20;
  CHECK(has(run.decode_bytes(bad).fault, "unknown flags"));
}

namespace {

enum class Step { make, work, settle, go_on, none };

class ThrowingPart final : public Part {
 public:
  explicit ThrowingPart(Step step) : step_(step) {}
  void work() override { check(Step::work); }
  void go_on() override { check(Step::go_on); }

 private:
  void check(Step step) const {
    if (step == step_) throw std::bad_alloc();
  }
  Step step_;
};

// Three parts of a block each. In the second one, a step finds no memory.
class ThrowingParts final : public PartMaker {
 public:
  explicit ThrowingParts(Step step) : step_(step) {}

  std::unique_ptr<Part> make() override {
    if (++made_ > 3) return nullptr;
    if (made_ == 2 && step_ == Step::make) throw std::bad_alloc();
    auto part = std::make_unique<ThrowingPart>(made_ == 2 ? step_ : Step::none);
    part->blocks.push_back({pool_.take(), 512});
    return part;
  }
  void settle(Part&, OrderedParts&) override {
    if (++settled_ == 2 && step_ == Step::settle) throw std::bad_alloc();
  }
  void stop() override { pool_.stop(); }
  [[nodiscard]] std::optional<Junk> junk() const override { return {}; }

 private:
  const Step step_;
  BufferPool pool_{1024, 8};
  int made_ = 0;
  int settled_ = 0;
};

}  // namespace

TEST_CASE("parts: no memory is a fault, wherever it is noticed") {
  for (const Step step : {Step::make, Step::work, Step::settle, Step::go_on, Step::none}) {
    CAPTURE(static_cast<int>(step));
    auto decoding = must(PartDecoding::start(std::make_unique<ThrowingParts>(step), 2, 4));
    std::size_t slices = 0;
    auto slice = decoding->next();
    for (; slice && !slice->empty(); slice = decoding->next()) ++slices;
    CHECK(bool(slice) == (step == Step::none));
    CHECK(slices <= (step == Step::none ? 3 : 2));
    CHECK(slices >= 1);
    if (slice) continue;
    CHECK(slice.error().text() != "");
    CHECK(must_fail(decoding->next()).text() == slice.error().text());
  }
}
