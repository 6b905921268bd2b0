// Piece: one source path that becomes one tree or file. It is a directory, a file, or an archive,
// which is source → decoder → entries → writer, or a compressed file.
#pragma once

#include <string>
#include <variant>

#include "common/text/human.hpp"
#include "daemon/worker/piece/dataset_sources.hpp"
#include "daemon/worker/piece/piece_form.hpp"

namespace nodestage {

// A file that is copied as it is.
struct FilePiece : PieceForm {
  [[nodiscard]] std::string kind() const { return wanted.mount ? "squashfs image" : "file"; }
  // A file that is copied keeps its own name.
  [[nodiscard]] std::string default_name() const {
    return wanted.mount ? PieceForm::default_name() : last_part(path);
  }
  Result<Need> need();
  Result<PieceLook> look(std::chrono::milliseconds limit);
  Status build(const PieceContext& place);
};

// A compressed file that is no archive. It becomes a file.
struct CompressedPiece : PieceForm {
  CompressedPiece(PieceForm form, std::unique_ptr<Decoder> from)
      : PieceForm(std::move(form)), decoder(std::move(from)) {}

  [[nodiscard]] std::string kind() const { return std::string(row_of(decoder->coding()).suffix); }
  Result<Need> need();
  Result<PieceLook> look(std::chrono::milliseconds limit);
  Status build(const PieceContext& place);

  std::unique_ptr<Decoder> decoder;
};

class Piece {
 public:
  using Place = PieceContext;
  using Writes = PieceContext::Writes;

  // Opens the source and finds out what it is (recognise.hpp). `meter` is borrowed.
  static Result<Piece> open(const std::string& path, const Unpacking& wanted, Meter& meter,
                            const PieceLimits& limits);

  // The name under which it is staged by default (common/request/destinations.hpp).
  [[nodiscard]] std::string default_name() const {
    return std::visit([](const auto& form) { return form.default_name(); }, form_);
  }

  // "tar.gz", "zip", "directory", "file", "tar in 3 parts"
  [[nodiscard]] std::string kind() const {
    const std::string kind = std::visit([](const auto& form) { return form.kind(); }, form_);
    const std::size_t parts = form().wanted.parts.size();
    return kind + (parts == 0 ? "" : " in " + counted(parts, "part", "parts"));
  }

  // The descriptor of the source, borrowed. Of a directory, it is what build() has copied, and -1
  // before.
  [[nodiscard]] int source_fd() const {
    return form().source ? form().source->fd() : form().directory.get();
  }

  // The file or the files that it is read from; null for a directory.
  [[nodiscard]] const Source* source() const { return form().source.get(); }

  // The source file's size; 0 for a directory.
  [[nodiscard]] std::uint64_t size() const { return form().source ? form().source->size() : 0; }

  // The blocks of an xz file; 0 if unknown.
  [[nodiscard]] std::uint64_t xz_blocks() const { return xz_blocks_of(*form().source); }

  [[nodiscard]] bool is_directory() const { return std::holds_alternative<DirectoryPiece>(form_); }
  // Null for a directory, and for what becomes a file.
  [[nodiscard]] const ArchivePiece* archive() const { return std::get_if<ArchivePiece>(&form_); }
  // The compression of what is extracted or decompressed; plain for what is copied.
  [[nodiscard]] Coding coding() const {
    if (archive() != nullptr) return archive()->coding();
    const auto* compressed = std::get_if<CompressedPiece>(&form_);
    return compressed != nullptr ? compressed->decoder->coding() : Coding::plain;
  }

  // What build() will take of the local disk, as far as is known (newest.hpp).
  Result<Need> need() {
    auto need = std::visit([](auto& form) { return form.need(); }, form_);
    return need ? std::move(need) : form().as_joined(std::move(need.error()));
  }

  // Reads on for about `limit` as build() would, with all its threads, and writes nothing. Does not
  // read directories. Call it once, instead of build().
  Result<PieceLook> look(std::chrono::milliseconds limit) {
    auto look = std::visit([limit](auto& form) { return form.look(limit); }, form_);
    return look ? std::move(look) : form().as_joined(std::move(look.error()));
  }

  // build() reads the source from other nodes of the job, where it can. Borrowed.
  void relay_by(ItemRelay& relay) {
    std::visit([&relay](PieceForm& form) { form.relay = &relay; }, form_);
  }

  // Makes it there. Call it once. The process's umask must be that of the place. A file that is
  // changed meanwhile is opened and read again, limits.settle.reads times in all.
  Status build(const Place& place);

  // A note for the user, or "". Complete after build().
  [[nodiscard]] const std::string& note() const { return form().note; }

  // After build(): the note on links that lead out of it, or "".
  [[nodiscard]] const std::string& link_note() const { return form().link_note; }

  // After build(): the globs that made no difference here (EntryFilter::idle_globs()), or "". They
  // may make one in other sources of the same item.
  [[nodiscard]] const std::string& idle_globs() const { return form().idle_globs; }

 private:
  template <typename Form>
  explicit Piece(Form form) : form_(std::move(form)) {}
  [[nodiscard]] const PieceForm& form() const {
    return std::visit([](const PieceForm& form) -> const PieceForm& { return form; }, form_);
  }

  static Result<Piece> open(PieceForm form, Source source);
  Status open_again();
  Status freshen();
  Status build_once(const Place& place);
  [[nodiscard]] const SourcePart* changed_while(const Status& made) const;

  std::variant<DirectoryPiece, FilePiece, CompressedPiece, ArchivePiece> form_;
};

}  // namespace nodestage
