// A std::variant on the wire: the alternative that a number names, read by its own get().
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "common/result.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

// get(in, alternative) reads the fields. A fault for an index that is none, fields that are cut off
// or wrong, and bytes left over.
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
