// BlockCache: the blocks of an image that were unpacked last, for several threads. A block that
// two threads want at once is unpacked by one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "common/result.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

struct ImageBlock {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
  std::uint64_t next = 0;  // where the block ends in the image

  [[nodiscard]] Bytes bytes() const { return {data.get(), size}; }
};

class BlockCache {
 public:
  using Block = std::shared_ptr<const ImageBlock>;

  explicit BlockCache(std::size_t most) : most_(most) {}

  // Returns the block that begins at this byte of the image. `load`, a Status(ImageBlock&), makes
  // it if it is not there.
  template <typename Load>
  Result<Block> get(std::uint64_t at, Load load) {
    const std::shared_ptr<Slot> slot = slot_of(at);
    const std::lock_guard lock(slot->mutex);
    if (!slot->is_loaded) {
      TRY(load(slot->block));
      slot->is_loaded = true;
    }
    return Block(slot, &slot->block);
  }

 private:
  struct Slot {
    std::mutex mutex;
    bool is_loaded = false;
    ImageBlock block;
  };
  using Order = std::list<std::pair<std::uint64_t, std::shared_ptr<Slot>>>;

  std::shared_ptr<Slot> slot_of(std::uint64_t at) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(at);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
    } else {
      order_.emplace_front(at, std::make_shared<Slot>());
      places_[at] = order_.begin();
    }
    if (order_.size() > most_) {
      places_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }

  const std::size_t most_;
  std::mutex mutex_;
  Order order_;  // the one that was used last comes first
  std::unordered_map<std::uint64_t, Order::iterator> places_;
};

}  // namespace nodestage
