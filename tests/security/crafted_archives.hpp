// Archives byte by byte, as no archiver would write them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../unit/zip_bytes.hpp"

namespace crafted {

// What a header says; texts go in as they are.
struct TarHeader {
  std::string name;
  char type = '0';
  std::string link = "";
  std::string data = "";
  std::string mode = "0000644";
  std::string size = "";  // the field; empty: of data
  std::string prefix = "";
  std::string device = "0000001";  // both numbers
};

inline std::string octal(std::uint64_t value, int digits = 11) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  return text;
}

// A number of 12 bytes in base 256.
inline std::string base256(bool negative, std::uint64_t value) {
  std::string field(12, negative ? '\xff' : '\0');
  if (!negative) field[0] = '\x80';
  for (std::size_t i = 0; i < 8; ++i) field[11 - i] = static_cast<char>(value >> (8 * i) & 0xff);
  return field;
}

inline std::string padded(std::string data) {
  data.resize((data.size() + 511) / 512 * 512, '\0');
  return data;
}

inline std::string entry(const TarHeader& header) {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, std::size_t size, std::string_view text) {
    block.replace(at, std::min(size, text.size()), text.substr(0, size));
  };
  put(0, 100, header.name);
  put(100, 8, header.mode);
  put(108, 8, "0000000");
  put(116, 8, "0000000");
  put(124, 12, header.size.empty() ? octal(header.data.size()) : header.size);
  put(136, 12, octal(1'000'000'000));
  put(148, 8, "        ");
  block[156] = header.type;
  put(157, 100, header.link);
  put(257, 8, std::string_view("ustar\00000", 8));
  put(329, 8, header.device);
  put(337, 8, header.device);
  put(345, 155, header.prefix);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, 8, octal(sum, 6) + std::string("\0 ", 2));
  return block + padded(header.data);
}

inline const std::string k_tar_end(1024, '\0');

inline std::string tar(const std::vector<TarHeader>& headers) {
  std::string all;
  for (const TarHeader& header : headers) all += entry(header);
  return all + k_tar_end;
}

using Records = std::vector<std::pair<std::string, std::string>>;

// "13 path=value\n": the length counts itself.
inline std::string record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

// A pax header for the next entry; type 'g': for all that follow.
inline TarHeader pax(const Records& records, char type = 'x') {
  TarHeader header{"PaxHeaders/x", type};
  for (const auto& [key, value] : records) header.data += record(key, value);
  return header;
}

// GNU's long name ('L') or long link ('K') for the next entry.
inline TarHeader gnu_long(char type, const std::string& name) {
  return {"././@LongLink", type, "", name + '\0'};
}

using zip_bytes::crc32;
using zip_bytes::little;

// A member of a zip, as both of its headers tell of it.
struct ZipMember {
  std::string name;
  std::string data = "";  // packed
  std::string local_name = "";
  std::uint32_t method = 0;
  std::uint64_t size = k_of_data;  // unpacked, in both headers
  std::uint64_t local_size = k_of_data;
  std::uint32_t unix_mode = 0100644;
  std::string extra = "";            // in both headers
  std::uint64_t offset = k_of_data;  // of the local header; else where it is
  std::uint32_t crc = 0;             // 0: of data
  static constexpr std::uint64_t k_of_data = ~std::uint64_t{0};
};

inline std::string zip_sizes(const ZipMember& member, std::uint64_t size) {
  const std::uint32_t crc = member.crc != 0 ? member.crc : crc32(member.data);
  return little(member.method, 2) + little(0x00210000, 4) + little(crc, 4) +
         little(member.data.size(), 4) + little(size, 4);
}

inline std::string zip(const std::vector<ZipMember>& members) {
  const auto known = [](std::uint64_t value, std::uint64_t otherwise) {
    return value == ZipMember::k_of_data ? otherwise : value;
  };
  std::string all;
  std::string directory;
  for (const ZipMember& member : members) {
    const std::uint64_t size = known(member.size, member.data.size());
    const std::string& local = member.local_name.empty() ? member.name : member.local_name;
    directory += std::string("PK\1\2\x14\3\x14\0\0\0", 10) + zip_sizes(member, size) +
                 little(member.name.size(), 2) + little(member.extra.size(), 2) +
                 std::string(6, '\0') + little(std::uint64_t{member.unix_mode} << 16, 4) +
                 little(known(member.offset, all.size()), 4) + member.name + member.extra;
    all += std::string("PK\3\4\x14\0\0\0", 8) + zip_sizes(member, known(member.local_size, size)) +
           little(local.size(), 2) + little(member.extra.size(), 2) + local + member.extra +
           member.data;
  }
  return all + directory + std::string("PK\5\6\0\0\0\0", 8) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(all.size(), 4) +
         std::string(2, '\0');
}

}  // namespace crafted
