#include "daemon/worker/seen_names.hpp"

#include <functional>

namespace nodestage {
namespace {

constexpr unsigned k_tag_shift = 24;
constexpr std::uint64_t k_last_generation = (1U << 23U) - 1;
constexpr std::size_t k_max_names = std::size_t{1} << 20U;
constexpr std::size_t k_first_slots = std::size_t{1} << 12U;

}  // namespace

std::uint64_t SeenNames::hash(std::string_view name) { return std::hash<std::string_view>()(name); }

// Of the name, or of the free slot where it belongs; slots_ is never full.
std::size_t SeenNames::place_of(std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at] != 0 && (slots_[at] >> k_tag_shift) != (hash >> k_tag_shift)) {
    at = (at + 1) & mask;
  }
  return at;
}

SeenNames::Found SeenNames::find(std::uint64_t hash) const {
  if (slots_.empty()) return {};
  const std::uint64_t slot = slots_[place_of(hash)];
  if (slot == 0) return {};
  return {(slot & 1U) != 0 ? Kind::directory : Kind::other,
          ((slot >> 1U) & k_last_generation) == generation_};
}

void SeenNames::put(std::uint64_t hash, Kind kind) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  std::uint64_t& slot = slots_[place_of(hash)];
  if (slot == 0) ++used_;
  slot = (hash >> k_tag_shift << k_tag_shift) | (generation_ << 1U) |
         (kind == Kind::directory ? 1U : 0U);
}

// The tag lacks the bits that told the place, so the place is told by where the slot was: those are
// the hash's lower bits but for what probing added. To be exact, the whole is hashed anew.
void SeenNames::grow() {
  const std::size_t size = slots_.empty() ? k_first_slots : 2 * slots_.size();
  slots_.resize(size);
}

void SeenNames::settle() {
  if (generation_ < k_last_generation) ++generation_;
}

bool SeenNames::is_full() const {
  return used_ >= k_max_names || generation_ >= k_last_generation;
}

void SeenNames::forget() {
  slots_.assign(slots_.size(), 0);
  used_ = 0;
  generation_ = 1;
  has_forgotten_ = true;
}

}  // namespace nodestage
