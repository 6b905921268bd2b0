// What a dataset's options mean now: which paths, and which entries of a directory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/piece/newest.hpp"
#include "daemon/worker/piece/piece_form.hpp"
#include "daemon/worker/piece/tree_stream.hpp"
#include "daemon/worker/read/opened_sources.hpp"

namespace nodestage {

struct DatasetSources {
  std::vector<std::string> paths;
  bool is_group = false;               // `paths` are the sorted matches of a glob
  std::optional<NewestChoice> newest;  // of a group: `paths` again
  std::string note = {};               // for the user, or ""
  std::string whole = {};              // as in FoundSources
};

// The files of the item's sources, without what item.exclude leaves out of the search of a glob.
// With merge, they are a group in the order in which they become one tree, each once. With join,
// they are the parts of one file, of which none is missing as far as their names show.
Result<FoundSources> find_sources(const DatasetItem& item);

// All sources of the item in one text, as OpenedByText has it.
std::string opened_text(const DatasetItem& item);

// Faults include advice for the user.
Result<DatasetSources> dataset_sources(const DatasetItem& item);

// For a worker that goes on after another one has chosen: a text that holds the choice, and the
// same sources with that choice, where entries have only their names. Nothing from another text.
std::string text_of_choice(const DatasetSources& sources);
std::optional<DatasetSources> sources_of_choice(const DatasetItem& item, const std::string& text);

// DirectoryPiece: a directory that is copied, or that another node of the job has copied. Piece has
// what its functions do.
class DirectoryPiece : public PieceForm {
 public:
  explicit DirectoryPiece(PieceForm form) : PieceForm(std::move(form)) {}

  [[nodiscard]] std::string kind() const { return "directory"; }
  Result<Need> need();
  Result<PieceLook> look(std::chrono::milliseconds limit);
  Status build(const PieceContext& place);

 private:
  enum class Relayed { done, again, alone };  // again: a stream has broken off
  Result<Relayed> build_relayed(const PieceContext& place, int to);
  void add(RelayedSource::Outcome outcome);
  std::unique_ptr<RelayedTree> begin_relayed(const PieceContext& place);
  [[nodiscard]] std::uint64_t fingerprint(const PieceContext& place) const;
  Status copy(const PieceContext& place, int to, TreeStreamWriter* stream);
  Status receive(TreeStreamReader& stream, const PieceContext& place, int to);
  Status finish(const TreeSummary& summary);

  std::string broken_off_;  // why a stream did, while nothing came in its place
};

}  // namespace nodestage
