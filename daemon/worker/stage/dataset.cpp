#include "daemon/worker/stage/dataset.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/request/destinations.hpp"
#include "common/request/option_text.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/read/find_sources.hpp"
#include "daemon/worker/share/dataset_key.hpp"
#include "daemon/worker/tree/dir_stack.hpp"

namespace nodestage {
namespace {

constexpr double k_alike = 0.75;  // matches of a glob are assumed this much like the first one

Amount scaled(const Amount& amount, double times) {
  const auto scale = [times](std::uint64_t value) {
    return static_cast<std::uint64_t>(std::min(static_cast<double>(value) * times, 1e18));
  };
  return {scale(amount.bytes), scale(amount.inodes)};
}

}  // namespace

Dataset::Dataset(const DatasetItem& item, std::size_t index, const StageContext& context)
    : StagedItem(item.source,
                 item.async      ? Patience::async
                 : item.optional ? Patience::optional
                                 : Patience::needed,
                 item.shared ? Sharing::asked : Sharing::none, index, context),
      item_(item) {}

Status Dataset::plan() {
  if (is_link()) {
    return claim(item_.destination.empty() ? last_part(decided_->path) : item_.destination,
                 item_.source);
  }
  TRY_ASSIGN(FoundSources found, find_sources(item_.source));
  sources_ = std::move(found.paths);
  is_group_ = found.is_group;
  TRY(measure());
  if (!item_.destination.empty()) return claim(item_.destination, item_.source);
  if (is_group_) set_destination(std::string(k_job_directory));
  return item_.async && !is_group_ ? learn_destination() : Status();
}

// Assumes that a glob's matches are like the first one.
Status Dataset::weigh() {
  if (is_link()) return {};
  if (!item_.destination.empty() && context_.workspace.is_placed(item_.destination)) return {};
  TRY_ASSIGN(Piece piece, Piece::open(sources_.front(), item_, meter_, context_.limits));
  if (!is_group_ && context_.workspace.is_placed(piece.default_name())) return {};
  TRY_ASSIGN(need_, piece.need());
  if (sources_.size() > 1 && piece.size() > 0) {
    const double times = static_cast<double>(source_bytes_) / static_cast<double>(piece.size());
    need_ = {scaled(need_.expected, times), scaled(need_.least, times * k_alike)};
  }
  keep_open(std::move(piece));
  return {};
}

Status Dataset::ask() {
  const bool is_sure = need_.least.bytes >= need_.expected.bytes;
  Status asked =
      context_.allowance.ask(need_, source() + (is_sure ? ": needs" : ": needs at least"));
  if (!asked) need_ = {};
  return asked;
}

Status Dataset::learn_destination() {
  Meter uncounted(context_.rate, context_.stop);
  TRY_ASSIGN(const Piece piece, Piece::open(sources_.front(), item_, uncounted, {}));
  return claim(piece.default_name(), sources_.front());
}

Status Dataset::claim(const std::string& destination, const std::string& source) {
  if (!is_path_below(destination)) {
    return fault(EINVAL, shown(source) + ": its destination's name cannot be derived from this",
                 "Give it one: --stage-dataset=SOURCE:DEST");
  }
  TRY(context_.workspace.claim(destination, source));
  if (!is_group_ || !item_.destination.empty()) set_destination(destination);
  return {};
}

Status Dataset::stage() {
  if (!item_.destination.empty()) {
    TRY_ASSIGN(const bool is_placed, keep_placed(item_.destination));
    if (is_placed) return {};
  }
  if (item_.async) {
    TRY(weigh());
    TRY(ask());
  }
  TRY_ASSIGN(const Fd item_fd, context_.workspace.make_item(index_));
  if (is_lead()) begin_watch();
  if (is_group_ && !item_.destination.empty()) return stage_group(item_fd.get());
  for (const auto& source : sources_) TRY(stage_one(item_fd.get(), source));
  return {};
}

// Stages all matches into one directory, which is then renamed into place.
Status Dataset::stage_group(int item_fd) {
  if (::mkdirat(item_fd, "all", 0777) != 0) return space_.explain("all", errno);
  auto all = open_directory_at(item_fd, "all");
  if (!all) return space_.explain("all", all.error().code);
  for (const auto& source : sources_) {
    TRY_ASSIGN(Piece piece, open_piece(source, item_));
    const std::string name = piece.default_name();
    const auto [first, is_new] = names_.emplace(name, source);
    if (!is_new) {
      return fault(EEXIST,
                   shown(first->second) + " and " + shown(source) + " would both become '" +
                       shown(name) + "'",
                   "Give one of them another destination: --stage-dataset=SOURCE:DEST");
    }
    TRY(build(piece, source, all->get(), name));
  }
  return place(item_fd, "all", item_.destination);
}

Status Dataset::stage_one(int item_fd, const std::string& source) {
  TRY_ASSIGN(Piece piece, open_piece(source, item_));
  const bool is_claimed = variable().has_value() && !is_group_;
  const std::string destination =
      item_.destination.empty() ? piece.default_name() : item_.destination;
  if (!is_claimed) TRY(claim(destination, source));
  TRY_ASSIGN(const bool is_placed, keep_placed(destination));
  if (is_placed) return {};
  TRY(build(piece, source, item_fd, "one"));
  return place(item_fd, "one", destination);
}

void Dataset::begin_watch() {
  for (auto* key : {&before_, &after_})
    key->emplace(dataset_key(item_, is_group_, sources_.front(), share_rules()));
}

Status Dataset::build(Piece& piece, const std::string& source, int dir_fd,
                      const std::string& name) {
  set_kind(piece.kind());
  const auto writes = is_shared() ? Piece::Writes::taken : Piece::Writes::kept;
  if (before_) add_source(*before_, source, piece.source_fd());
  TRY(piece.build({dir_fd, name, context_.umask, space_, writes}));
  if (after_) {
    add_source(*after_, source, piece.source_fd());
    // Before the last source, the keys of a group do not agree.
    if (source == sources_.back()) judge(before_->identity(), after_->identity());
  }
  add_note(piece.note());
  if (!is_group_) add_note(piece.idle_globs());
  return {};
}

std::string Dataset::name() const {
  return "dataset '" + shown(item_.name.empty() ? destination_of(item_) : item_.name) + "'";
}

// Uses the likely destination while the final one is not known.
std::string Dataset::short_name() const {
  if (!item_.name.empty()) return nodestage::variable_name(item_.name);
  const bool is_known = !destination_.empty() && destination_ != k_job_directory;
  return nodestage::variable_name(is_known ? destination_ : destination_of(item_));
}

std::string Dataset::variable_name() const { return "NODESTAGE_DATASET_" + short_name(); }

}  // namespace nodestage
