#include "daemon/worker/spool/board.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

// A part that is read at once is not smaller.
constexpr std::uint64_t k_grain = 64ULL << 10;
constexpr std::uint64_t k_bits = 32;

// Not the private form: the word is shared by two processes.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit, std::uint32_t bits) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit, nullptr,
            bits);
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

void Board::Unmap::operator()(RelayBoard* board) const { ::munmap(board, k_relay_board_bytes); }

std::uint32_t news_of(std::uint64_t from, std::uint64_t to) {
  if (to <= from) return k_any_news;
  const std::uint64_t first = from / k_grain;
  const std::uint64_t last = (to - 1) / k_grain;
  if (last - first >= k_bits) return k_any_news;
  std::uint32_t bits = 0;
  for (std::uint64_t grain = first; grain <= last; ++grain) bits |= 1U << grain % k_bits;
  return bits;
}

std::uint32_t news_at(std::uint64_t end) {
  return 1U << (std::max<std::uint64_t>(end, 1) - 1) / k_grain % k_bits;
}

void raise(std::atomic<std::uint32_t>& word, std::uint32_t bits) {
  word.fetch_add(1);
  futex(word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, bits);
}

// The call takes a time of the monotonic clock.
void await_raise(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                 std::chrono::milliseconds limit, std::uint32_t bits) {
  const auto until = std::chrono::steady_clock::now().time_since_epoch() + limit;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
  const timespec time{seconds.count(), std::chrono::nanoseconds(until - seconds).count()};
  futex(word, FUTEX_WAIT_BITSET, seen, &time, bits);
}

void clear(RelaySlot& slot) {
  for (auto* field : {&slot.low, &slot.watermark, &slot.position, &slot.from_storage,
                      &slot.from_nodes, &slot.granted, &slot.written})
    *field = 0;
  for (auto* field : {&slot.kind, &slot.is_ended, &slot.is_whole, &slot.has_left}) *field = 0;
  slot.identity = RelayIdentity{};
  slot.path[0] = slot.upstream[0] = slot.why[0] = slot.left[0] = '\0';
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
