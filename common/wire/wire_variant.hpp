// Decodes a std::variant: a number selects the alternative, and get() reads its fields.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "common/result.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

// get(in, alternative) reads the fields. A fault (EPROTO) for an unknown index, missing or wrong
// fields, or trailing bytes.
template <typename Variant, std::size_t index = 0, typename Get>
Result<Variant> decode_alternative(std::size_t wanted, WireDecoder& in, Get get) {
  if constexpr (index == std::variant_size_v<Variant>) {
    return Error{EPROTO, "a message of an unknown kind"};
  } else {
    if (index != wanted) return decode_alternative<Variant, index + 1>(wanted, in, get);
    std::variant_alternative_t<index, Variant> alternative;
    get(in, alternative);
    if (!in.finished()) return Error{EPROTO, "a message with wrong fields"};
    return Variant(std::move(alternative));
  }
}

}  // namespace nodestage
