// The central directory of a zip file: the positions of its members, and what it lists about them.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/archive/zip_record.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// The members in the order of their positions in the file, in which later ones win. Its memory is
// the directory itself and 16 bytes for each member.
class ZipIndex final : public ArchiveContents {
 public:
  struct Place {
    std::uint64_t offset;  // of the local header
    std::uint32_t record;  // in the directory
  };

  [[nodiscard]] std::size_t size() const override { return places_.size(); }
  [[nodiscard]] Member member(std::size_t number) const override;
  [[nodiscard]] Status check_readable(std::size_t number) const override;
  // Valid as long as the index. Any thread.
  [[nodiscard]] ZipRecord record(std::size_t member) const;
  [[nodiscard]] std::uint64_t offset(std::size_t member) const { return places_[member].offset; }
  // The end of the member's room: the start of the next member or of the directory.
  [[nodiscard]] std::uint64_t end(std::size_t member) const {
    return member + 1 < places_.size() ? places_[member + 1].offset : directory_offset_;
  }

  [[nodiscard]] std::uint64_t total_size() const override { return total_size_; }
  // Where the first member begins, or the directory if there is none.
  [[nodiscard]] std::uint64_t begin() const {
    return places_.empty() ? directory_offset_ : places_.front().offset;
  }
  // Whether all members are stored or deflated (Deflate64 too) and have no password.
  [[nodiscard]] bool is_plain() const override { return is_plain_; }
  [[nodiscard]] bool has_junk() const override { return has_junk_; }

 private:
  friend Result<ZipIndex> read_zip_index(const Source& source);
  Status list_members(const Source& source, std::uint64_t shift);
  [[nodiscard]] Status check_places(const Source& source) const;
  [[nodiscard]] std::string_view text() const { return {directory_.data(), directory_.size()}; }

  std::vector<char> directory_;
  std::vector<Place> places_;
  std::uint64_t directory_offset_ = 0;
  std::uint64_t total_size_ = 0;
  bool is_plain_ = true;
  bool has_junk_ = false;
};

// Faults: the directory at the file's end is missing (the file is cut off); members overlap each
// other or the directory (a bomb, or damage). Offsets that do not count the data before the archive
// (a self-extractor) are corrected. Bytes after the archive's end are not a fault if the directory
// is where the end record says.
//
//   end record  "PK\5\6" … u16 disk at 4, u32 size at 12, u32 offset at 16, u16 comment at 20
//   its zip64   "PK\6\7" 20 bytes before it, u64 at 8: where "PK\6\6" is: u64 size at 40, offset
//               at 48
//   members     see zip_record.hpp; a signature, "PK\5\5", may follow
Result<ZipIndex> read_zip_index(const Source& source);

// Whether the file ends as a zip does, however it starts.
Result<bool> has_zip_end(const Source& source);

// "PATH: damaged or cut off: CAUSE", with the advice.
Error damaged_zip(const Source& source, const std::string& cause);

}  // namespace nodestage
