// The central directory of a zip file: what libarchive does not tell of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/worker/source.hpp"

namespace nodestage {

struct ZipIndex {
  struct Member {
    std::uint64_t offset;  // of its local header
    std::string name;      // as its bytes are; UTF-8 where the archive has that too
    std::uint64_t size;    // uncompressed
  };
  std::vector<Member> members;  // by offset, which is the order in which libarchive reads them
};

// A fault when the directory, at the file's end, is missing: the file is cut off.
//
//   end record    "PK\5\6" … u16 count at 10, u32 size at 12, u32 offset at 16, u16 comment at 20
//   its zip64     "PK\6\7" 20 bytes before it, u64 at 8: where "PK\6\6" is: u64 size at 40, offset
//   at 48 member        "PK\1\2" … u16 flags at 8, u32 size at 24, u16 name, extra, comment at 28,
//   30, 32,
//                 u32 offset at 42, then name, extra fields (u16 id, u16 size, data), comment
//   extra fields  1: u64 for each of size, packed size, offset that is 0xffffffff above
//                 0x7075: u8 version, u32 CRC-32 of the name, the name in UTF-8
Result<ZipIndex> read_zip_index(const Source& source);

}  // namespace nodestage
