// What a program can know of its own types: the values of an enumeration, for a number that was
// read from a message or a file, and the members of an aggregate.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace nodestage {

// EnumRange: the numbers that are values of an enumeration, for one read from a message or a file.
//
// Such an enumeration has no gaps. A function beside it names its first and last value:
//
//   constexpr EnumRange<Verdict> range_of(Verdict) { return {Verdict::open, Verdict::failed}; }

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

// The members of an aggregate, in the order in which its definition has them: for tables of members
// of which none may be forgotten, and for messages, whose fields they are.

struct AnyMember {
  template <typename Value>
  operator Value() const;  // NOLINT: it is only asked whether it would convert
};

// The number of members.
template <typename T, typename... Members>
constexpr std::size_t members_of() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; })
    return members_of<T, Members..., AnyMember>();
  else
    return sizeof...(Members);
}

// Calls use() with all members.
template <typename T>
void with_members(T& t, const auto& use) {
  constexpr std::size_t k_members = members_of<std::remove_const_t<T>>();
  static_assert(k_members <= 18, "add a line below");
  // clang-format off
#define NODESTAGE_USE(count, ...) \
  if constexpr (k_members == count) { auto& [__VA_ARGS__] = t; use(__VA_ARGS__); }
  if constexpr (k_members == 0) use();
  NODESTAGE_USE(1, a)
  NODESTAGE_USE(2, a, b)
  NODESTAGE_USE(3, a, b, c)
  NODESTAGE_USE(4, a, b, c, d)
  NODESTAGE_USE(5, a, b, c, d, e)
  NODESTAGE_USE(6, a, b, c, d, e, f)
  NODESTAGE_USE(7, a, b, c, d, e, f, g)
  NODESTAGE_USE(8, a, b, c, d, e, f, g, h)
  NODESTAGE_USE(9, a, b, c, d, e, f, g, h, i)
  NODESTAGE_USE(10, a, b, c, d, e, f, g, h, i, j)
  NODESTAGE_USE(11, a, b, c, d, e, f, g, h, i, j, k)
  NODESTAGE_USE(12, a, b, c, d, e, f, g, h, i, j, k, l)
  NODESTAGE_USE(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  NODESTAGE_USE(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  NODESTAGE_USE(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  NODESTAGE_USE(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  NODESTAGE_USE(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  NODESTAGE_USE(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
#undef NODESTAGE_USE
  // clang-format on
}

}  // namespace nodestage
