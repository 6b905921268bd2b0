#include "daemon/worker/spool/relayed_sources.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t k_longest_reason = 200;
// A smaller ring would not hold what the reading threads want at once.
constexpr std::uint64_t k_good_ring = 64ULL << 20;

bool is_listed(std::string_view type, const std::vector<std::string>& list) {
  return std::any_of(list.begin(), list.end(), [type](const std::string& wanted) {
    return type == wanted || (wanted == "fuse" && type.starts_with("fuse."));
  });
}

// Returns whether the source in a slot is there from its start, or will be; or whether it is over,
// so that another slot would have no more.
bool has_all(const RelaySlot& slot) {
  const std::uint32_t state = slot.state;
  if (slot.low != 0) return false;
  return state == number(RelaySlotState::serving) || state == number(RelaySlotState::over);
}

bool holds(const RelaySlot& slot, const std::string& path, const RelayIdentity& identity) {
  return slot.kind == number(RelayKind::file) && has_all(slot) && slot.identity == identity &&
         path.compare(0, std::string::npos, slot.path, ::strnlen(slot.path, sizeof slot.path)) == 0;
}

}  // namespace

std::string board_text(const char* text, std::size_t bytes, const char* otherwise) {
  const std::string copy(text, ::strnlen(text, bytes));
  return copy.empty() ? otherwise : shortened(printable(copy, Newlines::join), k_longest_reason);
}

RelayedSources::RelayedSources(const RelayRules& rules, int board_fd, int spool_fd)
    : rules_(rules), spool_fd_(spool_fd) {
  auto board = Board::map(board_fd);
  if (board) {
    board_.emplace(std::move(*board));
  } else {
    refused_ = board.error().text();
    log_line("nothing is relayed: " + refused_);
  }
}

// What is in a directory is not known in advance.
bool RelayedSources::may_be_relayed(const struct stat& info, std::uint64_t whole) const {
  if (S_ISDIR(info.st_mode)) return true;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const bool is_worth_it =
      size >= rules_.least_bytes || (size >= k_least_of_whole && whole >= rules_.least_bytes);
  return S_ISREG(info.st_mode) && size > 0 && is_worth_it;
}

bool RelayedSources::qualifies(int fd, const struct stat& info, std::uint64_t whole) {
  if (rules_.window_bytes == 0 || !may_be_relayed(info, whole)) return false;
  const std::string mount = mount_of(fd);
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = mounts_.try_emplace(mount, false);
  if (is_new) {
    const auto text = read_mountinfo();
    const auto found = text ? find_mount(*text, mount) : std::nullopt;
    known->second = found && is_listed(found->type, rules_.file_systems);
  }
  return known->second;
}

// O_PATH does not trouble the file's server.
bool RelayedSources::expect(const std::string& path, const struct stat& info, std::uint64_t whole) {
  if (!may_be_relayed(info, whole)) return false;
  const auto fd = open_at(AT_FDCWD, path, O_PATH);
  if (!fd || !qualifies(fd->get(), info, whole)) return false;
  ++expected_;
  if (whole != 0) {
    ++expected_parts_;
    largest_part_ = std::max(largest_part_, static_cast<std::uint64_t>(info.st_size));
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const bool is_directory = S_ISDIR(info.st_mode);
  expected_bytes_ = more(expected_bytes_, is_directory ? rules_.window_bytes : size);
  least_bytes_ = more(least_bytes_, is_directory ? least_ring() : std::min(size, least_ring()));
  return true;
}

std::uint64_t RelayedSources::most_lanes() const {
  return std::clamp<std::uint64_t>(rules_.window_bytes / k_good_ring, 1, k_relay_slots);
}

// The rings of other sources stay as large as they must be.
std::uint64_t RelayedSources::lanes_for_parts() const {
  if (expected_parts_ == 0) return 0;
  const bool has_others = expected_parts_ < expected_;
  const std::uint64_t ring = std::max(largest_part_, has_others ? k_good_ring : k_least_of_whole);
  return std::min<std::uint64_t>({rules_.window_bytes / ring, expected_, k_relay_slots});
}

std::uint64_t RelayedSources::least_ring() const {
  return ring_bytes(rules_.window_bytes, static_cast<std::uint32_t>(most_lanes()));
}

std::uint64_t RelayedSources::spool_bytes(SpoolSize size) const {
  const bool is_off = !refused_.empty() || (*board_)->is_off != 0;
  const std::uint64_t bytes = size == SpoolSize::whole ? expected_bytes_ : least_bytes_;
  return is_off ? 0 : std::min(rules_.window_bytes, bytes);
}

std::uint64_t RelayedSources::spool_taken() const {
  struct stat info {};
  return ::fstat(spool_fd_, &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

// The more lanes, the smaller their rings. A lane that no source takes has no data.
void RelayedSources::begin(std::size_t at_once, SpoolSize size) {
  if (!refused_.empty() || !is_wanted()) return end();
  const std::uint64_t few = std::min<std::uint64_t>({2 * at_once, expected_, most_lanes()});
  const std::uint64_t used = std::max<std::uint64_t>({few, lanes_for_parts(), 1});
  lanes_ = static_cast<std::uint32_t>(size == SpoolSize::least ? most_lanes() : used);
  share_ = std::max<std::size_t>(lanes_ / std::max<std::size_t>(at_once, 1), 1);
  (*board_)->lanes = lanes_;
}

void RelayedSources::refuse(const std::string& why) {
  if (refused_.empty()) refused_ = why;
  end();
}

// `asks` is not raised: no slot is needed.
void RelayedSources::end() {
  if (!board_ || has_ended_.exchange(true)) return;
  (*board_)->staging_is_over = 1;
  raise((*board_)->moves);
}

bool RelayedSources::turn_off(const std::string& why, const std::atomic<bool>& stop) {
  if (!board_ || lanes_ == 0) return false;
  RelayBoard& board = **board_;
  if (board.is_off == 0) {
    set_field(board.why, why);
    board.is_off = 1;
  }
  for (auto* word : {&board.asks, &board.moves, &board.news}) raise(*word);
  const auto end = SilenceWatch::Clock::now() + seconds(rules_.patience_s);
  const std::uint64_t before = spool_taken();
  while (spool_taken() > 0 && SilenceWatch::Clock::now() < end && !stop) {
    const std::uint32_t seen = board.news;
    await_raise(board.news, seen, k_news_step);
  }
  return spool_taken() < before || before == 0;
}

void RelayedSources::lose() { lost_at_ = (*board_)->beat; }

bool RelayedSources::is_lost() const { return lost_at_ == (*board_)->beat; }

// Returns why nothing can be claimed now, or "".
std::string RelayedSources::reason() {
  if (!refused_.empty()) return refused_;
  if (lanes_ == 0) return "it was not expected to be read";
  const RelayBoard& board = **board_;
  if (board.is_off != 0) return board_text(board.why, sizeof board.why, "it is turned off");
  return is_lost() ? k_relay_is_silent : "";
}

std::optional<RelayContext> RelayedSources::claim(const Wanted& wanted, const Meter& meter,
                                                  std::string& why) {
  if (wanted.path.size() >= k_max_relay_path) {
    why = "its path is too long";
    return std::nullopt;
  }
  const auto end = SilenceWatch::Clock::now() + seconds(rules_.patience_s);
  SilenceWatch::Clock::time_point ask_again{};
  std::optional<SilenceWatch> watch;
  while (meter.check()) {
    why = reason();
    if (!why.empty()) return std::nullopt;
    RelayBoard& board = **board_;
    const std::uint32_t seen = board.news;
    if (const auto index = take_slot(wanted)) return place(*index, wanted.identity.size);
    if (SilenceWatch::Clock::now() >= end) {
      why = "too many sources are relayed at once";
      return std::nullopt;
    }
    // It asks the relay worker for a slot; again and again, since another thread may get the one
    // that becomes free.
    const auto now = SilenceWatch::Clock::now();
    if (now >= ask_again) {
      raise(board.asks);
      ask_again = now + k_news_step;
    }
    if (!watch) watch.emplace(board, seconds(rules_.silence_wait_s));
    await_raise(board.news, seen, k_news_step);
    if (watch->is_silent()) lose();
  }
  return std::nullopt;
}

std::optional<std::size_t> RelayedSources::take_slot(const Wanted& wanted) {
  const std::lock_guard lock(mutex_);
  RelayBoard& board = **board_;
  for (std::size_t i = 0; i < lanes_ && wanted.kind == RelayKind::file; ++i) {
    if (join(board.slots[i], wanted)) return i;
  }
  for (std::size_t i = 0; i < lanes_; ++i) {
    if (ask(board.slots[i], wanted)) return i;
  }
  return std::nullopt;
}

// Joins a slot that serves another node already. Looks again afterwards, since the relay worker
// could have reused it before.
bool RelayedSources::join(RelaySlot& slot, const Wanted& wanted) {
  if (!holds(slot, wanted.path, wanted.identity)) return false;
  if (!exchange(slot.reader, number(RelayReader::none), number(RelayReader::reading))) return false;
  slot.position = 0;
  if (holds(slot, wanted.path, wanted.identity)) return true;
  slot.reader = number(RelayReader::closed);
  return false;
}

bool RelayedSources::ask(RelaySlot& slot, const Wanted& wanted) {
  if (!exchange(slot.state, number(RelaySlotState::unused), number(RelaySlotState::filling)))
    return false;
  clear(slot);
  slot.identity = wanted.identity;
  slot.kind = number(wanted.kind);
  set_field(slot.path, wanted.path);
  slot.reader = number(RelayReader::reading);
  slot.state = number(RelaySlotState::asked);
  raise((*board_)->asks);
  return true;
}

RelayContext RelayedSources::place(std::size_t index, std::uint64_t size) const {
  RelayBoard& board = **board_;
  return {&board,
          &board.slots[index],
          spool_fd_,
          index,
          ring_bytes(rules_.window_bytes, lanes_),
          size,
          seconds(rules_.silence_wait_s)};
}

}  // namespace nodestage
