// DecodeFaults: the faults of a source's content, as texts for its user.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Offsets are positions in the source file, so among its compressed bytes. Any thread.
class DecodeFaults {
 public:
  DecodeFaults(const Source& source, Coding coding)
      : path_(source.path()), size_(source.size()), coding_(coding) {}

  // The file ends at `offset`, which is too early.
  [[nodiscard]] Error cut_off(std::uint64_t offset) const;
  // Wrong bytes at about `offset`, according to their coding.
  [[nodiscard]] Error damaged_at(std::uint64_t offset, std::string_view cause) const;
  // Wrong content, noticed when everything before `offset` was decoded.
  [[nodiscard]] Error damaged_before(std::uint64_t offset, std::string_view cause) const;
  // A Codec's fault. stopped() is returned unchanged.
  [[nodiscard]] Error of_codec(std::uint64_t offset, const Error& error) const;

 private:
  [[nodiscard]] Error damaged(const std::string& where, std::string_view cause) const;
  [[nodiscard]] std::string byte(std::uint64_t offset) const;
  [[nodiscard]] std::string how_to_test() const;

  std::string path_;
  std::uint64_t size_;
  Coding coding_;
};

}  // namespace nodestage
