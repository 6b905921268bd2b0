// Decodes a std::variant: a number selects the alternative, and get() reads its fields.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "common/result.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

template <typename... Kinds>
constexpr std::size_t kinds_of(const std::variant<Kinds...>*) {
  return sizeof...(Kinds);
}

template <std::size_t index, typename Variant, typename Get>
void decode_as(WireDecoder& in, Variant& variant, const Get& get) {
  get(in, variant.template emplace<index>());
}

// get(in, alternative) reads the fields. A fault (EPROTO) for an unknown index, missing or wrong
// fields, or trailing bytes.
template <typename Variant, typename Get>
Result<Variant> decode_alternative(std::size_t wanted, WireDecoder& in, const Get& get) {
  constexpr auto k_decoders = []<std::size_t... index>(std::index_sequence<index...>) {
    return std::array{&decode_as<index, Variant, Get>...};
  }
  (std::make_index_sequence<kinds_of(static_cast<const Variant*>(nullptr))>{});
  if (wanted >= k_decoders.size()) return Error{EPROTO, "a message of an unknown kind"};
  Variant variant;
  k_decoders[wanted](in, variant, get);
  if (!in.finished()) return Error{EPROTO, "a message with wrong fields"};
  return variant;
}

}  // namespace nodestage
