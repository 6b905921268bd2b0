#include <doctest/doctest.h>
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include "cli/pack/pack_directory.hpp"
#include "common/os/file.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// While it is set, other threads than the main one have no memory.
std::atomic<bool> has_main_all_memory = false;
const std::thread::id main_thread = std::this_thread::get_id();

// The total, for which it waits a minute at most.
std::uint64_t total_of(int directory) {
  const TreeTotal total(directory);
  for (int i = 0; i < 6000 && total.bytes() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return total.bytes();
}

}  // namespace

// All that are freed by the operators below, also where a sanitizer has its own.
void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  if (has_main_all_memory && std::this_thread::get_id() != main_thread) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  void* memory = ::operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("a tree's total: regular files at any depth, each once, and no links") {
  const Scratch scratch;
  fs::create_directories(scratch / "a/b/c");
  std::ofstream(scratch / "a/one") << std::string(1000, 'x');
  std::ofstream(scratch / "a/b/c/two") << std::string(234, 'x');
  fs::create_hard_link(scratch / "a/one", scratch / "a/b/again");
  fs::create_symlink("../one", scratch / "a/b/link");
  CHECK(total_of(must(open_at(AT_FDCWD, scratch / "a", O_RDONLY | O_DIRECTORY)).get()) == 1234);
}

TEST_CASE("a tree's total: what is no directory has none, and a count that is not awaited ends") {
  const Scratch scratch;
  for (int i = 0; i < 100; ++i) std::ofstream(scratch / std::to_string(i)) << "x";
  CHECK(TreeTotal(-1).bytes() == 0);
  const auto directory = must(open_at(AT_FDCWD, scratch.path().string(), O_RDONLY | O_DIRECTORY));
  const TreeTotal left(directory.get());
}

TEST_CASE("a tree's total: without memory there is none, and nothing else ends") {
  const Scratch scratch;
  std::ofstream(scratch / "one") << "x";
  const auto directory = must(open_at(AT_FDCWD, scratch.path().string(), O_RDONLY | O_DIRECTORY));
  has_main_all_memory = true;
  std::uint64_t bytes = 1;
  {
    const TreeTotal total(directory.get());
    bytes = total.bytes();
  }
  has_main_all_memory = false;
  CHECK(bytes == 0);
}
