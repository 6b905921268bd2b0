// The start of a squashfs image: a superblock, of which a test can change what it is about.
#pragma once

#include <cstdint>
#include <string>

struct ImageStart {
  std::uint64_t used = 4096;  // bytes of the image
  unsigned block_log = 17;
  std::uint32_t block_size = 1U << 17;
  unsigned compression = 6;  // zstd
  unsigned major = 4;
  std::string magic = "hsqs";

  [[nodiscard]] std::string text() const {
    std::string bytes(96, '\0');
    bytes.replace(0, 4, magic);
    put(bytes, 12, block_size);
    put(bytes, 20, compression);
    put(bytes, 22, block_log);
    put(bytes, 28, major);
    put(bytes, 40, used);
    return bytes;
  }

 private:
  static void put(std::string& bytes, std::size_t at, std::uint64_t number) {
    for (; number != 0; number >>= 8) bytes[at++] = static_cast<char>(number & 0xff);
  }
};
