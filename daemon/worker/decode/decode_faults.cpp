#include "daemon/worker/decode/decode_faults.hpp"

#include <algorithm>

#include "common/text/human.hpp"

namespace nodestage {

// Uncompressed data have no checksum of their own.
std::string DecodeFaults::how_to_test() const {
  const std::string command = std::string(row_of(coding_).test) + " " + shell_word(shown(path_));
  return (coding_ == Coding::plain ? "Compare it with the original: " : "Test it with: ") + command;
}

Error DecodeFaults::cut_off(std::uint64_t offset) const {
  return fault(
      0, shown(path_) + ": cut off after " + human_bytes(offset) + ": the archive is truncated",
      "Was its creation or transfer stopped, by a quota or a time limit? " + how_to_test());
}

Error DecodeFaults::damaged(const std::string& where, std::string_view cause) const {
  std::string what = shown(path_) + ": damaged " + where + " (";
  what.append(cause).append(")");
  return fault(0, std::move(what), "Make or transfer it again. " + how_to_test());
}

std::string DecodeFaults::byte(std::uint64_t offset) const {
  return "byte " + human_count(offset) + " of " + human_count(std::max(size_, offset));
}

Error DecodeFaults::damaged_at(std::uint64_t offset, std::string_view cause) const {
  return damaged("at " + byte(offset), cause);
}

Error DecodeFaults::damaged_before(std::uint64_t offset, std::string_view cause) const {
  return damaged(offset == 0 ? "near its beginning" : "before " + byte(offset), cause);
}

Error DecodeFaults::of_codec(std::uint64_t offset, const Error& error) const {
  if (is_stopped(error)) return error;
  if (error.code == k_needs_dictionary)
    return fault(error.code,
                 shown(path_) + ": is compressed with a dictionary, which is not in the file",
                 "Compress it without one (zstd and lz4 without -D)");
  if (error.code != ENOMEM) return damaged_at(offset, error.text());
  return fault(ENOMEM, shown(path_) + ": needs too much memory to decode: " + error.text(),
               "Compress it with a window or dictionary of at most " + human_bytes(k_max_window) +
                   ", as zstd and xz do by default");
}

}  // namespace nodestage
