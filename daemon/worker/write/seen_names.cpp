#include "daemon/worker/write/seen_names.hpp"

#include <functional>
#include <limits>
#include <utility>

namespace nodestage {
namespace {

constexpr std::size_t k_first_slots = std::size_t{1} << 12U;
constexpr std::uint32_t k_last_generation = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::uint64_t SeenNames::hash(std::string_view name) { return std::hash<std::string_view>()(name); }

// Returns the slot of the name, or the free slot where it belongs.
std::size_t SeenNames::place_of(std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].generation != 0 && slots_[at].hash != hash) at = (at + 1) & mask;
  return at;
}

SeenNames::Found SeenNames::find(std::uint64_t hash) const {
  if (slots_.empty()) return {};
  const Slot& slot = slots_[place_of(hash)];
  if (slot.generation == 0) return {};
  return {slot.is_directory ? Kind::directory : Kind::other, slot.generation == generation_};
}

void SeenNames::put(std::uint64_t hash, Kind kind) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  Slot& slot = slots_[place_of(hash)];
  if (slot.generation == 0) ++used_;
  slot = {hash, generation_, kind == Kind::directory};
}

void SeenNames::grow() {
  const std::size_t size = slots_.empty() ? k_first_slots : 2 * slots_.size();
  const auto before = std::exchange(slots_, std::vector<Slot>(size));
  for (const Slot& slot : before) {
    if (slot.generation != 0) slots_[place_of(slot.hash)] = slot;
  }
}

void SeenNames::settle() {
  if (generation_ < k_last_generation) ++generation_;  // at the last generation it is full
}

bool SeenNames::is_full() const { return used_ >= most_ || generation_ >= k_last_generation; }

void SeenNames::forget() {
  slots_.assign(slots_.size(), {});
  used_ = 0;
  generation_ = 1;
  has_forgotten_ = true;
}

}  // namespace nodestage
