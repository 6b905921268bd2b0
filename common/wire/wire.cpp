#include "common/wire/wire.hpp"

namespace nodestage {

void WireEncoder::integer(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) data_.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void WireEncoder::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  data_.append(value);
}

void WireEncoder::texts(const std::vector<std::string>& values) {
  u32(static_cast<std::uint32_t>(values.size()));
  for (const auto& value : values) text(value);
}

void WireDecoder::refuse() {
  ok_ = false;
  rest_ = {};
}

std::string_view WireDecoder::take(std::size_t bytes) {
  if (bytes > rest_.size()) {
    refuse();
    return {};
  }
  const auto taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t WireDecoder::integer(unsigned bytes) {
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : take(bytes)) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(c)) << shift;
    shift += 8;
  }
  return value;
}

std::string WireDecoder::text() {
  const std::uint32_t bytes = u32();
  return std::string(take(bytes));
}

std::vector<std::string> WireDecoder::texts() {
  std::vector<std::string> values;
  for (std::uint32_t count = u32(); count > 0 && ok_; --count) values.push_back(text());
  return values;
}

}  // namespace nodestage
