// ZipUnpack: the data of a zip file's members, verified.
//
// Each member's local header must say what the directory says: its name, its method, and the sizes
// and the CRC-32 where it has them. The data must come to the sizes and to the CRC-32 told; a byte
// beyond the told size is never given on. What follows the data (a data descriptor) repeats what
// the directory says and is not read.
//
//   local header  "PK\3\4" | u16 needed version | u16 flags at 6 | u16 method | u32 DOS time |
//                 u32 CRC-32 at 14 | u32 packed size | u32 size | u16 lengths of name, extra
//                 fields at 26 | name | extra fields | data
#pragma once

#include <functional>

#include "daemon/worker/zip_reads.hpp"

namespace nodestage {

class ZipUnpack {
 public:
  // Both borrowed.
  ZipUnpack(const Source& source, const ZipIndex& index)
      : source_(source), index_(index), reads_(source, index) {}

  using Put = std::function<Status(std::uint64_t offset, Bytes data)>;

  // Of a plain member: all of its data, from the start on. Small data are verified before they are
  // put, large ones after that. Any thread; a thread keeps up to 3 MiB for the next one.
  Status unpack(std::size_t member, const Put& put);

 private:
  const Source& source_;
  const ZipIndex& index_;
  ZipReads reads_;
};

}  // namespace nodestage
