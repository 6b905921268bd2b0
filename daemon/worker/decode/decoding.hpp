// Decoding: one way to turn a source's bytes into decoded blocks; the Decoder chooses which.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/worker/decode/decode_faults.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// Used by one thread. The destructor joins its threads.
class Decoding {
 public:
  Decoding() = default;
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;
  virtual ~Decoding() = default;

  // As Decoder::next().
  virtual Result<Slice> next() = 0;
  // The position in the file before which everything lies that was returned.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
  [[nodiscard]] virtual unsigned threads() const { return 1; }
  // At the end: as Decoder::junk_at().
  [[nodiscard]] virtual std::optional<std::uint64_t> junk_at() const = 0;
};

}  // namespace nodestage
