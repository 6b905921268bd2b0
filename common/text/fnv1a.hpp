// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/. Not for what an attacker must not
// forge.
#pragma once

#include <cstdint>
#include <string_view>

namespace nodestage {

// Continues with `hash`, that of the bytes before these.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 14695981039346656037U) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace nodestage
