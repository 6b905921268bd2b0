// The records of a pax extended header: POSIX.1-2001, pax(1) "pax Extended Header".
//
// clang-format off
//   "LENGTH KEY=VALUE\n"...   LENGTH: of the whole record, in decimal; an empty VALUE takes an
//                             earlier one back
//   path, linkpath, size, mtime; hdrcharset does not matter, since names are bytes
//   SCHILY.xattr.NAME (bytes; GNU tar writes % and = of NAME as %25 and %3D), LIBARCHIVE.xattr.NAME
//   (base64; NAME as in a URL), SCHILY.acl.{access,default}: what xattrs.hpp keeps
//   GNU.sparse.{major,minor,name,realsize}           1.0; the map precedes the data
//   GNU.sparse.{size,numblocks,offset,numbytes}      0.0; offset and numbytes are repeated
//   GNU.sparse.{name,size,numblocks,map}             0.1; map: "OFFSET,SIZE,..."
// clang-format on
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {

struct PaxSparse {
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;   // of the file with its holes
  std::vector<std::uint64_t> numbers;  // offset, size, offset, …
  bool has_count = false;              // numblocks: it starts a map of 0.0 or 0.1
};

struct PaxHeader {
  std::optional<std::string> path;
  std::optional<std::string> link;
  std::optional<std::uint64_t> size;
  std::optional<timespec> mtime;

  std::optional<PaxSparse> sparse;
  Xattrs xattrs;

  // Adds the records' values. A fault's `what` is the cause alone.
  Status read(std::string_view records);

 private:
  Status take(std::string_view key, std::string_view value);
  void take_xattr(std::string name, std::string value);
  void take_acl(const char* name, std::string_view text);
  Status take_sparse(std::string_view key, std::string_view value);
};

}  // namespace nodestage
