// EntryLimits: limits that no well-meant archive reaches, so that a harmful one fails with a clear
// fault before it costs much. The total that it may write is limited by the Allowance.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/wire/worker_rules.hpp"
#include "daemon/worker/archive/entries.hpp"

namespace nodestage {

class EntryLimits {
 public:
  // source_bytes: the size of the archive itself. The site sets the limits of entries and ratio.
  // The defaults: 10,000,000 entries a minute would take more than an hour. Of nothing but zeros,
  // gzip reaches a ratio of 1,030, xz 7,000, and zstd 33,000; only bzip2 of zeros, and a zip whose
  // members share their data, reach more.
  explicit EntryLimits(std::uint64_t source_bytes, const ExtractRules& rules = {})
      : source_bytes_(source_bytes), rules_(rules) {}

  // Call it for each entry, in the archive's order. The fault does not name the entry.
  Status check(const Entry& entry);
  // Call it now and then, and at the end. `written`: bytes of all entries so far.
  [[nodiscard]] Status check_ratio(std::uint64_t written) const;

  // NAME_MAX: no Linux file system accepts more.
  static constexpr std::size_t k_part_bytes = 255;
  // Eight times PATH_MAX: no program could open it by its name in one call, few in several. Also
  // the limit of a hard link's target.
  static constexpr std::size_t k_name_bytes = std::size_t{32} * 1024;
  static constexpr std::size_t k_link_bytes = 4095;  // PATH_MAX less its NUL: of a symlink's text
  static constexpr std::size_t k_depth = 1000;
  // For directories, which are kept in memory until the end: their names and extended attributes,
  // and for each its time, mode, and position.
  static constexpr std::uint64_t k_directory_bytes = std::uint64_t{512} << 20;
  static constexpr std::uint64_t k_bytes_beside_name = 128;
  // A small archive of zeros harms nobody.
  static constexpr std::uint64_t k_ratio_from_bytes = std::uint64_t{4} << 30;

 private:
  const std::uint64_t source_bytes_;
  const ExtractRules rules_;
  std::uint64_t entries_ = 0;
  std::uint64_t directory_bytes_ = 0;
};

}  // namespace nodestage
