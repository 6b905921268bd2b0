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

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/enum_range.hpp"

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

}  // namespace nodestage
