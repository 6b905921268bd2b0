#include "daemon/worker/archive/tar_rest.hpp"

#include <algorithm>

#include "daemon/worker/archive/archive_end.hpp"
#include "daemon/worker/archive/tar_header.hpp"

namespace nodestage {
namespace {

bool is_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool is_header(Bytes block) {
  return block.size() == k_tar_block && TarHeader(block).has_right_checksum() && !is_zero(block);
}

// A block, or what there is of one at the end.
Bytes block_of(Bytes left) { return left.first(std::min(left.size(), k_tar_block)); }

}  // namespace

Result<bool> TarRest::find_archive() {
  for (Zeros before = Zeros::one;; before = Zeros::several) {
    TRY_ASSIGN(const bool is_there, bytes_.fill());
    if (!is_there) return false;
    const Bytes block = block_of(bytes_.left());
    if (is_header(block)) {
      if (!has_entry_ || before == Zeros::several) break;
      return decoder_.damaged("one block of zeros, and then more entries");
    }
    if (!is_zero(block)) {
      TRY(judge_junk(before));
      return false;
    }
    bytes_.skip(block.size());
  }
  if (has_entry_)
    ++archives_;
  else
    has_zeros_before_ = true;
  has_entry_ = false;
  return true;
}

Status TarRest::judge_junk(Zeros before) {
  if (const std::string kind = kind_of_start(bytes_.left()); !kind.empty())
    return other_archive(decoder_.path(), kind, {});
  if (!has_entry_) return decoder_.damaged("zeros, and then no tar header");
  if (before == Zeros::one) return decoder_.damaged("one block of zeros, and then no tar header");
  has_junk_ = true;
  for (bool is_there = true; is_there;) {
    const Bytes block = block_of(bytes_.left());
    if (is_header(block)) return decoder_.damaged("more entries, after bytes that are none");
    bytes_.skip(block.size());
    TRY_ASSIGN(is_there, bytes_.fill());
  }
  return {};
}

std::string TarRest::note() const {
  std::string note = archives_ > 1 ? joined_note(archives_) : "";
  const auto add = [&note](const std::string& text) { note += (note.empty() ? "" : "; ") + text; };
  if (has_zeros_before_) add("zeros before the first entry were skipped");
  if (has_junk_) add(k_junk_note);
  return note;
}

}  // namespace nodestage
