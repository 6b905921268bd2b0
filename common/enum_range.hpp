// EnumRange: which numbers are values of an enumeration that comes from a message or a file.
//
// Such an enumeration has no gaps, and a function beside it that names its ends:
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

// Nothing for a number that is none of them.
template <RangedEnum T>
constexpr std::optional<T> to_enum(std::uint64_t number) {
  constexpr EnumRange<T> k_range = range_of(T{});
  if (number < to_number(k_range.first) || number > to_number(k_range.last)) return std::nullopt;
  return static_cast<T>(number);
}

}  // namespace nodestage
