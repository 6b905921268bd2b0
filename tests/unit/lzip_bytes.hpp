// One member of a .lz file, as lzip(1) makes it.
#pragma once

#include <doctest/doctest.h>
#include <lzma.h>

#include <cstdint>
#include <string>

// `value` in `bytes` bytes, the lowest first.
inline std::string fixed(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 0xff);
  return text;
}

inline std::string lzip_of(const std::string& data) {
  lzma_options_lzma options{};
  lzma_lzma_preset(&options, LZMA_PRESET_DEFAULT);
  options.dict_size = 1U << 20U;
  const lzma_filter filters[] = {{LZMA_FILTER_LZMA1, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string coded(2 * data.size() + 1000, '\0');
  std::size_t size = 0;
  REQUIRE(lzma_raw_buffer_encode(
              filters, nullptr, reinterpret_cast<const std::uint8_t*>(data.data()), data.size(),
              reinterpret_cast<std::uint8_t*>(coded.data()), &size, coded.size()) == LZMA_OK);
  coded.resize(size);
  return "LZIP\1\x14" + coded +
         fixed(lzma_crc32(reinterpret_cast<const std::uint8_t*>(data.data()), data.size(), 0), 4) +
         fixed(data.size(), 8) + fixed(size + 26, 8);
}
