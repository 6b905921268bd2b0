// ArchivePiece: an archive that becomes a tree. Piece has what its functions do.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/piece/piece_form.hpp"

namespace nodestage {

class TreeWriter;
class EntryLimits;

class ArchivePiece : public PieceForm {
 public:
  ArchivePiece(PieceForm form, Container container, std::unique_ptr<Decoder> decoder)
      : PieceForm(std::move(form)), container_(container), decoder_(std::move(decoder)) {}

  [[nodiscard]] std::string kind() const;
  [[nodiscard]] std::string default_name() const;
  Result<Need> need();
  Result<PieceLook> look(std::chrono::milliseconds limit);
  Status build(const PieceContext& place);

  [[nodiscard]] Container container() const { return container_; }
  [[nodiscard]] Coding coding() const { return decoder_->coding(); }
  // The blocks of an xz file; 0 if unknown.
  [[nodiscard]] std::uint64_t xz_blocks() const { return xz_blocks_of(*source); }

 private:
  Status look_behind();
  [[nodiscard]] Error as_part(Error error) const;
  Status open_entries();
  Result<std::unique_ptr<Entries>> entries_of_container();
  [[nodiscard]] Status check_members(const ArchiveContents& contents) const;
  Status write_entries(TreeWriter& writer, EntryLimits& bounds, OutLinks& out_links);
  Status refuse(const Error& error, const std::string& name);
  Status write_entry(const Entry& entry, TreeWriter& writer, const EntryLimits& bounds);
  [[nodiscard]] Status check_ratio(const EntryLimits& bounds) const;
  [[nodiscard]] Error at_entry(Error error, const std::string& name) const;

  Container container_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Entries> entries_;  // once they are open
  std::uint64_t written_before_ = 0;  // by other archives of the same item
  std::uint64_t escaped_ = 0;         // entries whose names lead out of it
};

}  // namespace nodestage
