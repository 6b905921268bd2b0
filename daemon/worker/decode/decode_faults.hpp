// DecodeFaults: what can be wrong with a source's content, in its user's words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// Offsets are of the source file, so of its compressed bytes. Any thread.
class DecodeFaults {
 public:
  DecodeFaults(const Source& source, Coding coding)
      : path_(source.path()), size_(source.size()), coding_(coding) {}

  // The file ends at `offset`, too early.
  [[nodiscard]] Error cut_off(std::uint64_t offset) const;
  // Wrong bytes at about `offset`, by what their coding says.
  [[nodiscard]] Error damaged_at(std::uint64_t offset, std::string_view cause) const;
  // The same by what they mean: it was noticed when all before `offset` was decoded.
  [[nodiscard]] Error damaged_before(std::uint64_t offset, std::string_view cause) const;
  // A Codec's fault; one that is stopped() as it is.
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
