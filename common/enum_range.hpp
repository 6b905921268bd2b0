// EnumRange: the numbers that are values of an enumeration, for one read from a message or a file.
//
// Such an enumeration has no gaps. A function beside it names its first and last value:
//
//   constexpr EnumRange<Verdict> range_of(Verdict) { return {Verdict::open, Verdict::failed}; }
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace nodestage {

template <typename T>
struct EnumRange {
  T first;
  T last;
};

template <typename T>
concept RangedEnum = std::is_enum_v<T> && requires {
  { range_of(T{}) } -> std::same_as<EnumRange<T>>;
};

template <RangedEnum T>
constexpr std::uint64_t to_number(T value) {
  return static_cast<std::uint64_t>(value);
}

// Empty if no value of T has that number.
template <RangedEnum T>
constexpr std::optional<T> to_enum(std::uint64_t number) {
  constexpr EnumRange<T> k_range = range_of(T{});
  if (number < to_number(k_range.first) || number > to_number(k_range.last)) return std::nullopt;
  return static_cast<T>(number);
}

}  // namespace nodestage
