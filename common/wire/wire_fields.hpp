// Encodes and decodes the fields of a message from a list of references to them, in their order on
// the wire (std::tie). One list serves both directions. Each type has one form on the wire:
//
//   u8, u32, u64, text, texts, enumeration     as in wire.hpp
//   bool                                       u8, 0 or 1; any other number reads as 1
//   std::optional<std::uint32_t>               u8 whether there is a value, u32 (0 if not)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "common/wire/is.hpp"
#include "common/wire/wire.hpp"

namespace nodestage {

inline void put_field(WireEncoder& out, std::uint8_t value) { out.u8(value); }
inline void put_field(WireEncoder& out, std::uint32_t value) { out.u32(value); }
inline void put_field(WireEncoder& out, std::uint64_t value) { out.u64(value); }
inline void put_field(WireEncoder& out, bool value) { out.u8(value ? 1 : 0); }
inline void put_field(WireEncoder& out, const std::string& value) { out.text(value); }
inline void put_field(WireEncoder& out, const std::vector<std::string>& value) { out.texts(value); }
inline void put_field(WireEncoder& out, const std::optional<std::uint32_t>& value) {
  out.u8(value ? 1 : 0), out.u32(value.value_or(0));
}
template <RangedEnum T>
void put_field(WireEncoder& out, T value) {
  out.one_of(value);
}

inline void get_field(WireDecoder& in, std::uint8_t& value) { value = in.u8(); }
inline void get_field(WireDecoder& in, std::uint32_t& value) { value = in.u32(); }
inline void get_field(WireDecoder& in, std::uint64_t& value) { value = in.u64(); }
inline void get_field(WireDecoder& in, bool& value) { value = in.u8() != 0; }
inline void get_field(WireDecoder& in, std::string& value) { value = in.text(); }
inline void get_field(WireDecoder& in, std::vector<std::string>& value) { value = in.texts(); }
inline void get_field(WireDecoder& in, std::optional<std::uint32_t>& value) {
  const bool is_there = in.u8() != 0;
  const std::uint32_t number = in.u32();
  value = is_there ? std::optional(number) : std::nullopt;
}
template <RangedEnum T>
void get_field(WireDecoder& in, T& value) {
  value = in.one_of<T>();
}

template <typename... T>
void put_fields(WireEncoder& out, const std::tuple<T&...>& fields) {
  std::apply([&out](const auto&... field) { (put_field(out, field), ...); }, fields);
}
template <typename... T>
void get_fields(WireDecoder& in, const std::tuple<T&...>& fields) {
  std::apply([&in](auto&... field) { (get_field(in, field), ...); }, fields);
}

}  // namespace nodestage
