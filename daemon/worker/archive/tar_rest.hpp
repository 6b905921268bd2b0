// TarRest: what follows a block of zeros in a tar: padding, another tar as with `cat a.tar b.tar`,
// or bytes that are none.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/worker/archive/decoded_bytes.hpp"

namespace nodestage {

class TarRest {
 public:
  TarRest(Decoder& decoder, DecodedBytes& bytes) : decoder_(decoder), bytes_(bytes) {}  // borrowed

  // Call it for each entry.
  void begin_entry() { has_entry_ = true; }

  // After a block of zeros: whether another tar follows. If so, its first header is next; if not,
  // all is read. An archive of another kind is a fault, and so is what remains of a tar whose
  // beginning or middle was overwritten.
  Result<bool> find_archive();

  // For the user, or "".
  [[nodiscard]] std::string note() const;

 private:
  enum class Zeros { one, several };  // blocks of them before
  Status judge_junk(Zeros before);

  Decoder& decoder_;
  DecodedBytes& bytes_;
  bool has_entry_ = false;  // the current archive
  bool has_zeros_before_ = false;
  bool has_junk_ = false;
  std::uint64_t archives_ = 1;
};

}  // namespace nodestage
