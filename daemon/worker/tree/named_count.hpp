// NamedCount: counts things, and keeps the name of one, for a note to the user.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace nodestage {

// For several threads.
class NamedCount {
 public:
  void add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (count_++ == 0 || name < first_) first_ = name;
  }

  [[nodiscard]] std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  // Returns the name that sorts first; "": there is none.
  [[nodiscard]] std::string first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::string first_;
};

}  // namespace nodestage
