// DirectoryPiece: a directory that is copied, or that another node of the job has copied. Piece has
// what its functions do.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/worker/piece/piece_form.hpp"
#include "daemon/worker/piece/tree_stream.hpp"

namespace nodestage {

class DirectoryPiece : public PieceForm {
 public:
  explicit DirectoryPiece(PieceForm form) : PieceForm(std::move(form)) {}

  [[nodiscard]] std::string kind() const { return "directory"; }
  [[nodiscard]] std::string default_name() const;
  Result<Need> need();
  Result<PieceLook> look(std::chrono::milliseconds limit);
  Status build(const PiecePlace& place);

 private:
  enum class Relayed { done, again, alone };  // again: a stream has broken off
  Result<Relayed> build_relayed(const PiecePlace& place, int to);
  void add(RelayedSource::Outcome outcome);
  std::unique_ptr<RelayedTree> begin_relayed(const PiecePlace& place);
  [[nodiscard]] std::uint64_t fingerprint(const PiecePlace& place) const;
  Status copy(const PiecePlace& place, int to, TreeStreamWriter* stream);
  Status receive(TreeStreamReader& stream, const PiecePlace& place, int to);
  Status finish(const TreeSummary& summary);

  std::string broken_off_;  // why a stream did, while nothing came in its place
};

}  // namespace nodestage
