// WireEncoder and WireDecoder: the primitive fields of every nodestage message.
//
//   u8, u32, u64   little-endian, no padding
//   i32            as u32, two's complement
//   text           u32 length in bytes, then the bytes (any bytes; no terminator)
//   list of text   u32 count, then each text
//   enumeration    as its underlying u8 or u32; a number that is not one of its values is bad
//
// A WireDecoder never reads past its input: after the first bad field, every further field reads as
// zero or empty, and ok() is false.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/reflection.hpp"
#include "common/result.hpp"

namespace nodestage {

class WireEncoder {
 public:
  void u8(std::uint8_t value) { data_.push_back(static_cast<char>(value)); }
  void u32(std::uint32_t value) { integer(value, 4); }
  void u64(std::uint64_t value) { integer(value, 8); }
  void i32(std::int32_t value) { u32(static_cast<std::uint32_t>(value)); }
  template <RangedEnum T>
  void one_of(T value) {
    integer(to_number(value), static_cast<int>(sizeof(T)));
  }
  void text(std::string_view value);
  void texts(const std::vector<std::string>& values);

  [[nodiscard]] const std::string& data() const { return data_; }

 private:
  void integer(std::uint64_t value, int bytes);
  std::string data_;
};

class WireDecoder {
 public:
  explicit WireDecoder(std::string_view data) : rest_(data) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(integer(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(integer(4)); }
  std::uint64_t u64() { return integer(8); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  template <RangedEnum T>
  T one_of() {
    const auto value = to_enum<T>(integer(sizeof(T)));
    if (!value) refuse();
    return value.value_or(range_of(T{}).first);
  }
  std::string text();
  std::vector<std::string> texts();

  [[nodiscard]] bool ok() const { return ok_; }
  // ok(), and no bytes are left.
  [[nodiscard]] bool finished() const { return ok_ && rest_.empty(); }

 private:
  void refuse();
  std::uint64_t integer(unsigned bytes);
  std::string_view take(std::size_t bytes);
  std::string_view rest_;
  bool ok_ = true;
};

// For lists of the members of a record, here and in common/text/json_fields.hpp.

// M is T or const T, so that one list of fields serves for reading and for writing.
template <typename M, typename T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

// Encodes and decodes the fields of a message that are listed in their order on the wire: a
// function calls PutFields or GetFields with them. One list serves both directions. Each type has
// one form on the wire:
//
//   u8, u32, u64, text, texts, enumeration     as above
//   bool                                       u8, 0 or 1; any other number reads as 1
//   std::optional<std::uint32_t>               u8 whether there is a value, u32 (0 if not)
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

// Decodes a std::variant: a number selects the alternative, and get() reads its fields.
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
