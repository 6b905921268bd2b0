// Encodes and decodes the fields of a message that are listed in their order on the wire: a
// function calls PutFields or GetFields with them. One list serves both directions. Each type has
// one form on the wire:
//
//   u8, u32, u64, text, texts, enumeration     as in wire.hpp
//   bool                                       u8, 0 or 1; any other number reads as 1
//   std::optional<std::uint32_t>               u8 whether there is a value, u32 (0 if not)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

// What a list of fields is given to; functions, as tuples of references cost compilers much more.
struct PutFields {
  WireEncoder& out;
  void operator()(const auto&... field) const { (put_field(out, field), ...); }
};
struct GetFields {
  WireDecoder& in;
  void operator()(auto&... field) const { (get_field(in, field), ...); }
};

}  // namespace nodestage
