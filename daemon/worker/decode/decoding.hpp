// Decoding: one way to turn a source's bytes into decoded blocks; which one, Decoder chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/decode/decode_faults.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// One thread's. Its end joins its threads.
class Decoding {
 public:
  Decoding() = default;
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;
  virtual ~Decoding() = default;

  // As Decoder::next().
  virtual Result<Slice> next() = 0;
  // In the file: all that was given lies before it.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
  [[nodiscard]] virtual unsigned threads() const { return 1; }
  // At the end: what the user may want to know, or "".
  [[nodiscard]] virtual std::string note() const = 0;
};

}  // namespace nodestage
