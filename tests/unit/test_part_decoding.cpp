#include <doctest/doctest.h>

#include <new>

#include "daemon/worker/decode/decoder.hpp"

using namespace nodestage;

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
  [[nodiscard]] std::optional<std::uint64_t> junk_at() const override { return {}; }

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
    auto decoding = PartDecoding::start(std::make_unique<ThrowingParts>(step), 2, 4);
    REQUIRE(decoding);
    std::size_t slices = 0;
    auto slice = (*decoding)->next();
    for (; slice && !slice->empty(); slice = (*decoding)->next()) ++slices;
    CHECK(bool(slice) == (step == Step::none));
    CHECK(slices <= (step == Step::none ? 3 : 2));
    CHECK(slices >= 1);
    if (slice) continue;
    CHECK(slice.error().text() != "");
    const auto again = (*decoding)->next();
    REQUIRE(!again);
    CHECK(again.error().text() == slice.error().text());
  }
}
