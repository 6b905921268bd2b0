#include "daemon/worker/decode/indexed_chunk.hpp"

#include <algorithm>
#include <array>

#include "daemon/worker/decode/inflater.hpp"

namespace nodestage {
namespace {

// Into all of `room`, unless the input or the data end before.
std::size_t fill(Inflater& inflater, std::span<std::byte> room, Inflater::State& state) {
  inflater.set_room(room);
  state = inflater.run();
  return room.size() - inflater.room_left();
}

}  // namespace

bool inflate_stretch(const GzipStretch& stretch, Bytes data, std::vector<Part::Block>& blocks) {
  const std::uint64_t begin = stretch.begin / 8;
  const std::uint64_t size = (stretch.end + 7) / 8 - begin;
  if (data.size() < size) return false;
  data = data.first(size);
  const auto skipped = static_cast<unsigned>(stretch.begin % 8);
  Inflater inflater;
  if (!inflater.begin_between({(8 - skipped) % 8, 0}, 0, data.front(), stretch.window))
    return false;
  inflater.give(skipped > 0 ? data.subspan(1) : data);
  std::size_t left = stretch.data;
  Inflater::State state = Inflater::State::open;
  for (Part::Block& block : blocks) {
    const auto room = block.room().first(std::min(left, block.room().size()));
    block.size = fill(inflater, room, state);
    if (state != Inflater::State::open || block.size < room.size()) return false;
    left -= block.size;
  }
  // The end of the last block may not have been read yet.
  std::array<std::byte, 64> beyond{};
  if (left > 0 || fill(inflater, beyond, state) > 0 || state != Inflater::State::open) return false;
  const auto between = inflater.between();
  return between && 8 * (begin + size) - between->bits_left == stretch.end;
}

}  // namespace nodestage
