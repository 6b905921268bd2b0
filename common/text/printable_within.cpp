#include "common/text/printable_within.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_gap = "...";

// Returns whether the byte is in the middle of a character of UTF-8.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

}  // namespace

std::string printable_within(std::string_view text, std::size_t bytes, Newlines newlines) {
  std::string shown = printable(text, newlines);
  if (shown.size() <= bytes) return shown;
  const std::size_t kept = bytes - k_gap.size();
  std::size_t head = kept / 2;
  std::size_t tail = shown.size() - (kept - head);
  while (head > 0 && continues(shown[head])) --head;
  while (tail < shown.size() && continues(shown[tail])) ++tail;
  return shown.replace(head, tail - head, k_gap);
}

}  // namespace nodestage
