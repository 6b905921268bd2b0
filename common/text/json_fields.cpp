#include "common/text/json_fields.hpp"

namespace nodestage {

std::string latin1_to_utf8(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string utf8_to_latin1(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80 && i + 1 < text.size()) {
      ++i;
      bytes += static_cast<char>((byte & 0x03) << 6 | (static_cast<unsigned char>(text[i]) & 0x3f));
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

}  // namespace nodestage
