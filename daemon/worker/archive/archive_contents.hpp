// What an archive lists in advance about all of its members. Only formats with a directory of their
// own have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace nodestage {

class ArchiveContents {
 public:
  struct Member {
    std::string name;        // any bytes, as Entry::name; a directory's ends with "/"
    std::uint64_t size = 0;  // of its data, unpacked
  };

  ArchiveContents() = default;
  ArchiveContents(const ArchiveContents&) = default;
  ArchiveContents& operator=(const ArchiveContents&) = default;
  virtual ~ArchiveContents() = default;

  [[nodiscard]] virtual std::size_t size() const = 0;
  [[nodiscard]] virtual Member member(std::size_t number) const = 0;
  // A fault, with the cause, if that member's data cannot be read here.
  [[nodiscard]] virtual Status check_readable(std::size_t number) const = 0;
  [[nodiscard]] virtual std::uint64_t total_size() const = 0;  // of all data, unpacked
  // Whether many threads can read it; if so, every member is readable.
  [[nodiscard]] virtual bool is_plain() const = 0;
  // Whether the file continues after the archive's end.
  [[nodiscard]] virtual bool has_junk() const = 0;
};

}  // namespace nodestage
