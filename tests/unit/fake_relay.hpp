// FakeRelay: a relay worker in a thread of the test, which reads the original and says that another
// node sent it. It fills slots as the real one does, until a test has it do something else.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/spool/board.hpp"

class FakeRelay {
 public:
  explicit FakeRelay(std::uint64_t window)
      : window_(window),
        board_fd_(::memfd_create("board", MFD_CLOEXEC)),
        spool_fd_(::memfd_create("spool", MFD_CLOEXEC)) {
    if (::ftruncate(board_fd_.get(), nodestage::k_relay_board_bytes) != 0) std::abort();
    auto board = nodestage::Board::map(board_fd_.get());
    if (!board) std::abort();
    board_.emplace(std::move(*board));
  }

  // Until `over` is set or it is told to be silent.
  void run(const std::atomic<bool>& over) {
    board().magic = nodestage::k_relay_board_magic;
    while (!over && !is_silent) {
      ++board().beat;
      bool has_worked = false;
      for (std::size_t i = 0; i < board().lanes && !is_silent; ++i)
        has_worked = serve(i) || has_worked;
      if (has_worked) nodestage::raise(board().news);
      if (!has_worked) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  nodestage::RelayBoard& board() { return **board_; }
  nodestage::RelaySlot& slot(std::size_t i) { return board().slots[i]; }
  [[nodiscard]] int board_fd() const { return board_fd_.get(); }
  [[nodiscard]] int spool_fd() const { return spool_fd_.get(); }
  [[nodiscard]] std::uint64_t ring() { return nodestage::ring_bytes(window_, board().lanes); }

  std::string node = "n0";  // "": it is read from the original
  std::size_t block = 64 << 10;
  unsigned char disguise = 0;  // every byte is changed by this, so that it can be told
  bool is_silent = false;
  bool recycles = true;
  std::size_t asked = 0;              // slots of files
  std::size_t asked_directories = 0;  // slots of directories
  std::size_t recycled = 0;
  // What comes of directories; without it, their slots are over at once.
  std::optional<std::string> stream;
  // Called before each block of a slot that is served. False: no block now.
  std::function<bool(FakeRelay&, std::size_t slot)> before;

  void set_state(std::size_t i, nodestage::RelaySlotState state) {
    slot(i).state = nodestage::number(state);
  }
  void end(std::size_t i, const std::string& why) {
    nodestage::set_field(slot(i).why, why);
    set_state(i, nodestage::RelaySlotState::over);
  }
  void dropped(std::size_t i) {
    using nodestage::RelayReader;
    nodestage::exchange(slot(i).reader, nodestage::number(RelayReader::reading),
                        nodestage::number(RelayReader::dropped));
  }
  void turn_off(const std::string& why) {
    nodestage::set_field(board().why, why);
    board().is_off = 1;
  }

  // Puts the next block into the ring, whoever still needs what it overwrites.
  void fill(std::size_t i) {
    nodestage::RelaySlot& to = slot(i);
    const std::uint64_t at = to.watermark;
    if (stream && is(to.kind, nodestage::RelayKind::directory)) return fill_stream(i);
    const std::uint64_t rest = to.identity.size - at;
    const std::size_t bytes = std::min({std::uint64_t{block}, rest, ring() - at % ring()});
    const nodestage::Fd from(::open(to.path, O_RDONLY | O_CLOEXEC));
    std::vector<unsigned char> data(bytes);
    if (::pread(from.get(), data.data(), bytes, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(bytes))
      return end(i, "the original cannot be read");
    for (auto& byte : data) byte = static_cast<unsigned char>(byte ^ disguise);
    put(i, node.empty() ? to.from_storage : to.from_nodes, data.data(), bytes);
  }

 private:
  template <typename Enum>
  static bool is(const std::atomic<std::uint32_t>& word, Enum value) {
    return word == nodestage::number(value);
  }

  bool serve(std::size_t i) {
    using namespace nodestage;
    RelaySlot& own = slot(i);
    if (is(own.state, RelaySlotState::asked)) {
      const bool is_file = is(own.kind, RelayKind::file);
      ++(is_file ? asked : asked_directories);
      set_state(i, RelaySlotState::serving);
    }
    if (!is(own.state, RelaySlotState::serving) && !is(own.state, RelaySlotState::over))
      return false;
    if (is(own.reader, RelayReader::closed)) return recycles && recycle(i);
    if (!is(own.state, RelaySlotState::serving)) return false;
    if (before && !before(*this, i)) return false;
    if (is_silent || !is(own.state, RelaySlotState::serving) || !may_fill(own)) return false;
    fill(i);
    return true;
  }

  void fill_stream(std::size_t i) {
    nodestage::RelaySlot& to = slot(i);
    const std::uint64_t at = to.watermark;
    const std::size_t bytes =
        std::min({std::uint64_t{block}, stream->size() - at, ring() - at % ring()});
    put(i, to.from_nodes, stream->data() + at, bytes);
    to.is_whole = at + bytes == stream->size() ? 1U : 0U;
  }

  // Appends a block that does not go beyond the ring's end. `from` counts its bytes.
  void put(std::size_t i, std::atomic<std::uint64_t>& from, const void* data, std::size_t bytes) {
    nodestage::RelaySlot& to = slot(i);
    const std::uint64_t at = to.watermark;
    if (at + bytes > ring()) to.low = std::max<std::uint64_t>(to.low, at + bytes - ring());
    const auto place = static_cast<off_t>(nodestage::spool_offset(i, ring(), at));
    if (::pwrite(spool_fd(), data, bytes, place) != static_cast<ssize_t>(bytes)) std::abort();
    nodestage::set_field(to.upstream, node);
    from += bytes;
    to.watermark = at + bytes;
  }

  bool may_fill(const nodestage::RelaySlot& own) {
    const std::uint64_t end = own.watermark + block;
    const std::uint64_t position = own.position;
    const std::uint64_t kept = position - std::min(position, ring() / 4);
    return own.watermark < own.identity.size && end <= position + ring() / 2 + block &&
           end <= kept + ring();
  }

  bool recycle(std::size_t i) {
    using namespace nodestage;
    ++recycled;
    RelaySlot& own = slot(i);
    own.reader = number(RelayReader::recycled);
    own.low = 0;
    own.watermark = 0;
    set_state(i, RelaySlotState::unused);
    own.reader = number(RelayReader::none);
    return true;
  }

  const std::uint64_t window_;
  nodestage::Fd board_fd_;
  nodestage::Fd spool_fd_;
  std::optional<nodestage::Board> board_;
};
