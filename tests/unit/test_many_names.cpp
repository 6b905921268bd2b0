// How often names are compared while many are staged, counted in this program's own memcmp().
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <new>
#include <utility>

#include "rounds.hpp"
#include "stage_run.hpp"

using namespace nodestage;

// The sanitizers have one of their own.
#ifdef NODESTAGE_TEST_SANITIZED
TEST_CASE("many names: comparisons are not counted beside a sanitizer") { MESSAGE("skipped"); }
#else

namespace {

// Shared with the worker, which is a child; null: nobody counts.
constinit std::atomic<std::uint64_t>* comparisons = nullptr;

}  // namespace

extern "C" int memcmp(const void* one, const void* other, std::size_t size) noexcept {
  if (comparisons != nullptr) ++*comparisons;
  const auto* a = static_cast<const volatile unsigned char*>(one);
  const auto* b = static_cast<const volatile unsigned char*>(other);
  for (std::size_t i = 0; i < size; ++i)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

namespace {

std::uint64_t comparisons_with(int files, const std::string& destination) {
  StageRun stage;
  REQUIRE(stage.in_data("for i in {1.." + std::to_string(files) + "}; do : >file-$i; done") == 0);
  stage.add("file-*").destination = destination;
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<std::uint64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  comparisons = new (shared) std::atomic<std::uint64_t>(0);
  const int code = stage.run();
  const std::uint64_t counted = *std::exchange(comparisons, nullptr);
  ::munmap(shared, sizeof(std::atomic<std::uint64_t>));
  CHECK(code == 0);
  CHECK(stage.in_job("test $(find . -name 'file-*' | wc -l) = " + std::to_string(files)));
  return counted;
}

}  // namespace

TEST_CASE("a glob of four times as many files compares not much more than four times as often") {
  for (const char* destination : {"", "all"}) {
    CAPTURE(destination);
    const std::uint64_t few = comparisons_with(200, destination);
    const std::uint64_t many = comparisons_with(800, destination);
    CHECK(few > 200);
    CHECK(many < 6 * few);
  }
}
#endif
