#include "daemon/worker/stage/dataset.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/request/destinations.hpp"
#include "common/request/option_text.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/dir_stack.hpp"

namespace nodestage {
namespace {

constexpr double k_alike = 0.75;  // matches of a glob are assumed this much like the first one

thread_local int glob_fault = 0;  // what stopped the search; glob() itself does not report it

// As in a shell, an unreadable directory contains no match. Other faults stop the search.
int is_serious(const char*, int code) {
  glob_fault = code;
  return code != EACCES && code != ENOENT && code != ENOTDIR;
}

Result<std::vector<std::string>> glob_matches(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, is_serious, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status == 0) return paths;
  if (status == GLOB_NOMATCH) {
    return fault(ENOENT, shown(pattern) + ": no file matches", "Check it: ls -d " + shown(pattern));
  }
  return with_suffix(open_fault(pattern, status == GLOB_NOSPACE ? ENOMEM : glob_fault),
                     ": a directory on the path cannot be read");
}

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
                 index, context),
      item_(item) {}

Status Dataset::plan() {
  TRY(find_sources());
  TRY(measure());
  if (!item_.destination.empty()) return claim(item_.destination, item_.source);
  if (is_group_) set_destination(std::string(k_job_directory));
  return item_.async && !is_group_ ? learn_destination() : Status();
}

Status Dataset::find_sources() {
  struct stat info {};
  is_group_ = is_glob(item_.source) && ::stat(item_.source.c_str(), &info) != 0;
  if (!is_group_) {
    sources_ = {item_.source};
    return {};
  }
  TRY_ASSIGN(sources_, glob_matches(item_.source));
  return {};
}

// Assumes that a glob's matches are like the first one.
Status Dataset::weigh() {
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
  if (!item_.destination.empty() && keep_placed(item_.destination)) return {};
  if (item_.async) {
    TRY(weigh());
    TRY(ask());
  }
  TRY_ASSIGN(const Fd item_fd, context_.workspace.make_item(index_));
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
    TRY(build(piece, all->get(), name));
  }
  return context_.workspace.place(item_fd, "all", item_.destination);
}

Status Dataset::stage_one(int item_fd, const std::string& source) {
  TRY_ASSIGN(Piece piece, open_piece(source, item_));
  const bool is_claimed = variable().has_value() && !is_group_;
  const std::string destination =
      item_.destination.empty() ? piece.default_name() : item_.destination;
  if (!is_claimed) TRY(claim(destination, source));
  if (keep_placed(destination)) return {};
  TRY(build(piece, item_fd, "one"));
  return context_.workspace.place(item_fd, "one", destination);
}

Status Dataset::build(Piece& piece, int dir_fd, const std::string& name) {
  set_kind(piece.kind());
  TRY(piece.build({dir_fd, name, context_.umask, space_}));
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
