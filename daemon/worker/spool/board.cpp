#include "daemon/worker/spool/board.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <utility>

namespace nodestage {
namespace {

constexpr std::uint64_t k_mebibyte = 1ULL << 20;

// Not the private form: the word is shared by two processes.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit, nullptr,
            0);
}

}  // namespace

Result<Board> Board::map(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("the board of the relay");
  if (static_cast<std::uint64_t>(info.st_size) != k_relay_board_bytes)
    return Error{EINVAL, "the board of the relay has the wrong size"};
  void* memory = ::mmap(nullptr, k_relay_board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return system_error("the board of the relay");
  return Board(static_cast<RelayBoard*>(memory));
}

Board::Board(Board&& other) noexcept : board_(std::exchange(other.board_, nullptr)) {}

Board& Board::operator=(Board&& other) noexcept {
  std::swap(board_, other.board_);
  return *this;
}

Board::~Board() {
  if (board_ != nullptr) ::munmap(board_, k_relay_board_bytes);
}

void raise(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1);
  futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

void await_raise(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit) {
  const timespec time{limit.count() / 1000, limit.count() % 1000 * 1'000'000};
  futex(word, FUTEX_WAIT, seen, &time);
}

RelayIdentity identity_of(const struct stat& info) {
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

RelayIdentity directory_identity_of(const struct stat& info, std::uint64_t wanted) {
  RelayIdentity identity = identity_of(info);
  identity.size = wanted;
  return identity;
}

std::uint64_t ring_ahead(std::uint64_t ring) { return std::min(ring / 2, 256 * k_mebibyte); }

std::uint64_t ring_bytes(std::uint64_t window, std::uint32_t lanes) {
  const std::uint64_t each = window / std::max(1U, lanes);
  return std::max(k_mebibyte, each / k_mebibyte * k_mebibyte);
}

}  // namespace nodestage
