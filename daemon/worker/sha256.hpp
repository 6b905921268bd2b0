// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace nodestage {

std::array<std::uint8_t, 32> sha256(std::string_view data);

// In base64 with '-' and '_', without padding, as a wheel's RECORD has it.
std::string sha256_base64(std::string_view data);

}  // namespace nodestage
