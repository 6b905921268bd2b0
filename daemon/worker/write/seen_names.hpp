// SeenNames: the names that an archive had so far, and those that writers may be working on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nodestage {

// Stores names by hash, a million in 32 MiB. Two names with the same hash only cost a wait. For one
// thread.
class SeenNames {
 public:
  explicit SeenNames(std::size_t most = std::size_t{1} << 20U) : most_(most) {}

  enum class Kind { nothing, directory, other };
  struct Found {
    Kind kind = Kind::nothing;
    bool in_flight = false;  // seen since the last settle()
  };

  [[nodiscard]] static std::uint64_t hash(std::string_view name);

  [[nodiscard]] Found find(std::uint64_t hash) const;
  void put(std::uint64_t hash, Kind kind);  // or marks it as in flight again

  // Notes that no writer is working on any of them.
  void settle();

  // If is_full(): call forget() after settle() and before the next put(). From then on, find() may
  // miss a name that was seen.
  [[nodiscard]] bool is_full() const;
  void forget();
  [[nodiscard]] bool has_forgotten() const { return has_forgotten_; }

 private:
  [[nodiscard]] std::size_t place_of(std::uint64_t hash) const;
  void grow();

  const std::size_t most_;
  struct Slot {
    std::uint64_t hash;
    std::uint32_t generation;  // 0: the slot is free
    bool is_directory;
  };
  std::vector<Slot> slots_;  // open addressing, half of them free
  std::size_t used_ = 0;
  std::uint32_t generation_ = 1;
  bool has_forgotten_ = false;
};

}  // namespace nodestage
