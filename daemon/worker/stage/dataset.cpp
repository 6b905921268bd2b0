#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/request/destinations.hpp"
#include "common/request/option_text.hpp"
#include "common/request/request.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/piece/dataset_sources.hpp"
#include "daemon/worker/share/dataset_key.hpp"
#include "daemon/worker/stage/staged_item.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/tree/unite_trees.hpp"

namespace nodestage {
namespace {

constexpr double k_alike = 0.75;  // matches of a glob are assumed this much like the first one

Amount scaled(const Amount& amount, double times) {
  const auto scale = [times](std::uint64_t value) {
    return static_cast<std::uint64_t>(std::min(static_cast<double>(value) * times, 1e18));
  };
  return {scale(amount.bytes), scale(amount.inodes)};
}

// 0 if it is not known: with a directory among them.
std::uint64_t bytes_of(const NewestChoice& choice) {
  std::uint64_t bytes = 0;
  for (const NewestEntry& entry : choice.entries) {
    if (!S_ISREG(entry.info.st_mode)) return 0;
    bytes += static_cast<std::uint64_t>(entry.info.st_size);
  }
  return bytes;
}

void add_files(ShareKey& key, const Piece& piece) {
  for (const SourcePart& part : piece.source()->parts()) add_source(key, part.path, part.fd.get());
}

ItemSharing::Asked asked_of(const DatasetItem& item) {
  using Asked = ItemSharing::Asked;
  if (!item.shared) return Asked::no;
  return item.writable ? Asked::writable : item.mount ? Asked::mounted : Asked::yes;
}

Error no_mount_here(const StageOrder& order) {
  const std::string& why = order.images.refusal;
  return {0, "images cannot be mounted on node " + order.node + (why.empty() ? "" : ": " + why),
          "Leave out mount, and the job gets the image as a file; or stage an archive, whose files "
          "are extracted. Or ask your administrators for it."};
}

// One --stage-dataset= option on its way: which sources it means, and where they go.
class Dataset final : public StagedItem {
 public:
  Dataset(const DatasetItem& item, std::size_t index, const StageContext& context,
          std::size_t image)
      : StagedItem(item.source,
                   item.async      ? Patience::async
                   : item.optional ? Patience::optional
                                   : Patience::needed,
                   asked_of(item), index, context, image),
        item_(item),
        wanted_(item) {
    if (item.limit_files != 0) meter_.most_files = item.limit_files;
    is_of_node_ = item.names_node;
  }

  Status plan() override {
    if (is_mounted() && context_.order.images.mounts.empty()) return no_mount_here(context_.order);
    if (sharing_.is_link()) {
      return claim(item_.destination.empty() ? last_part(sharing_.path()) : item_.destination,
                   item_.source);
    }
    TRY_ASSIGN(DatasetSources found, find());
    sources_ = std::move(found.paths);
    is_group_ = found.is_group && found.whole.empty();
    newest_ = std::move(found.newest);
    note_ = std::move(found.note);
    wanted_.is_match = found.is_group;
    if (item_.join) wanted_.parts = std::exchange(sources_, {found.whole});
    if (newest_ && !is_group_) wanted_.only = &*newest_;
    if (Status measured = measure(item_.join ? &wanted_.parts : nullptr); !measured)
      return newest_ ? fault_of_chosen(std::move(measured.error())) : measured;
    if (wanted_.only != nullptr) meter_.bytes_total = bytes_of(*newest_);
    if (!item_.destination.empty()) return claim(item_.destination, item_.source);
    if (is_group_) progress_.set_destination(std::string(k_job_directory));
    return item_.async && !is_group_ ? learn_destination() : Status();
  }

  // Assumes that a glob's matches are like the first one.
  Status weigh() override {
    if (sharing_.is_link()) return {};
    if (!item_.destination.empty() && context_.workspace.is_placed(tree_of(item_.destination)))
      return {};
    const std::string source = like_most();
    TRY_ASSIGN(Piece piece, Piece::open(source, wanted_, meter_, context_.limits));
    if (!is_group_ && context_.workspace.is_placed(tree_of(piece.default_name()))) return {};
    TRY_ASSIGN(need_, piece.need());
    if (sources_.size() > 1 && piece.size() > 0) {
      const double times = static_cast<double>(source_bytes_) / static_cast<double>(piece.size());
      need_ = {scaled(need_.expected, times), scaled(need_.least, times * k_alike)};
    }
    if (source == sources_.front()) {
      keep_open(std::move(piece));
    } else {
      meter_.bytes_read = 0;
    }
    return {};
  }

  [[nodiscard]] std::string name() const override {
    return "dataset '" + shown(item_.name.empty() ? destination_of(item_) : item_.name) + "'";
  }

  // The names, sorted, so that nodes with the same choice say the same; "none" if nothing could be
  // chosen. What each node chooses from a source of its own is not compared.
  [[nodiscard]] std::string chosen() const override {
    if (item_.newest == 0 || item_.names_node) return {};
    auto names = newest_ ? names_of(*newest_) : std::vector<std::string>{"none"};
    std::sort(names.begin(), names.end());
    std::string text = printable(destination_of(item_)) + ":";
    for (const auto& name : names) text += (&name == &names.front() ? " " : ", ") + printable(name);
    return text;
  }

 private:
  // Each piece gets its name at once, by rename; with a glob and a destination, all pieces together
  // do; what newest= has chosen, once all of it is complete.
  Status stage() override {
    if (newest_) progress_.add_note(newest_text(*newest_));
    progress_.add_note(note_);
    if (!item_.also.empty())
      progress_.add_note(
          "one tree with " + shown(last_part(item_.also.front())) +
          (item_.also.size() > 1 ? " and " + human_count(item_.also.size() - 1) + " more" : ""));
    if (!item_.destination.empty()) {
      TRY_ASSIGN(const bool is_placed, keep_placed(item_.destination));
      if (is_placed) return {};
    }
    if (item_.async) {
      TRY(weigh());
      TRY(ask());
    }
    TRY_ASSIGN(const Fd item_fd, context_.workspace.make_item(index_));
    if (sharing_.is_lead()) begin_watch();
    if (is_group_ && item_.merge != Merge::none) return stage_united(item_fd.get());
    if (is_group_ && !item_.destination.empty()) return stage_group(item_fd.get());
    if (newest_) return stage_choice(item_fd.get());
    for (const auto& source : sources_) {
      TRY_ASSIGN(const std::string destination, build_one(item_fd.get(), source, "one"));
      if (!destination.empty()) TRY(place(item_fd.get(), "one", destination));
    }
    return {};
  }

  [[nodiscard]] const char* noun() const override { return "dataset"; }
  [[nodiscard]] std::uint32_t kind_flag() const override { return 0; }
  // Uses the likely destination while the final one is not known.
  [[nodiscard]] std::string short_name() const override {
    if (!item_.name.empty()) return nodestage::variable_name(item_.name);
    const std::string destination = progress_.destination();
    const bool is_known = !destination.empty() && destination != k_job_directory;
    return nodestage::variable_name(is_known ? destination : destination_of(item_));
  }

  [[nodiscard]] std::string variable_name() const override {
    return "NODESTAGE_DATASET_" + short_name();
  }

  // A choice holds for all workers of the job.
  Result<DatasetSources> find() {
    if (item_.newest == 0) return dataset_sources(item_);
    TRY_ASSIGN(const std::string kept, context_.workspace.kept_choice(index_));
    if (auto again = sources_of_choice(item_, kept)) return std::move(*again);
    TRY_ASSIGN(DatasetSources found, dataset_sources(item_));
    TRY(context_.workspace.keep_choice(index_, text_of_choice(found)));
    return found;
  }

  // A file, since a directory says nothing of the archives that become one tree with it.
  [[nodiscard]] std::string like_most() const {
    if (item_.merge == Merge::none) return sources_.front();
    const auto file = std::find_if(sources_.begin(), sources_.end(), [](const auto& source) {
      const auto info = examine_source(source);
      return info && S_ISREG(info->st_mode);
    });
    return file == sources_.end() ? sources_.front() : *file;
  }

  Result<Piece> open(const std::string& source) {
    auto piece = open_piece(source, wanted_);
    if (!piece && newest_) return fault_of_chosen(std::move(piece.error()));
    return piece;
  }

  Status ask() {
    const bool is_sure = need_.least.bytes >= need_.expected.bytes;
    Status asked =
        context_.allowance.ask(need_, source() + (is_sure ? ": needs" : ": needs at least"));
    if (!asked) need_ = {};
    return asked;
  }

  Status learn_destination() {
    Meter uncounted(context_.rate, context_.stop);
    TRY_ASSIGN(const Piece piece, Piece::open(sources_.front(), wanted_, uncounted, {}));
    return claim(piece.default_name(), sources_.front());
  }

  // Stages all matches into one directory, which is then renamed into place.
  Status stage_group(int item_fd) {
    if (::mkdirat(item_fd, "all", 0777) != 0) return space_.explain("all", errno);
    auto all = open_directory_at(item_fd, "all");
    if (!all) return space_.explain("all", all.error().code);
    for (const auto& source : sources_) {
      TRY_ASSIGN(Piece piece, open(source));
      const std::string name = piece.default_name();
      const auto [first, is_new] = names_.emplace(name, source);
      if (!is_new) {
        return fault(EEXIST,
                     shown(first->second) + " and " + shown(source) + " would both become '" +
                         shown(name) + "'",
                     k_move_one_of_them);
      }
      TRY(build(piece, source, all->get(), name));
    }
    return place(item_fd, "all", item_.destination);
  }

  // Stages each source into a directory, and makes one tree of all, which is then renamed into
  // place. Only while files are compared can there be more of them than the limit.
  Status stage_united(int item_fd) {
    if (auto first = build_tree(item_fd, sources_.front(), "all"); !first) return first.error();
    auto all = open_directory_at(item_fd, "all");
    if (!all) return space_.explain("all", all.error().code);
    const auto different = item_.merge == Merge::last ? UnitedTree::Different::last_taken
                                                      : UnitedTree::Different::refused;
    UnitedTree tree(std::move(*all), sources_.front(), different, meter_, space_);
    for (auto source = sources_.begin() + 1; source != sources_.end(); ++source) {
      if (item_.limit_files != 0) meter_.most_files = meter_.files + item_.limit_files;
      TRY_ASSIGN(const bool is_file, build_tree(item_fd, *source, "next"));
      auto next = open_directory_at(item_fd, "next");
      if (!next) return space_.explain("next", next.error().code);
      TRY(tree.add(std::move(*next), *source, is_file));
      if (::unlinkat(item_fd, "next", AT_REMOVEDIR) != 0) return space_.explain("next", errno);
      if (item_.limit_files != 0) meter_.most_files = item_.limit_files;
      if (meter_.has_too_many_files()) return too_many_files();
    }
    progress_.add_note(tree.note());
    return place(item_fd, "all", item_.destination);
  }

  // Returns whether it is a file, which then lies in a directory.
  Result<bool> build_tree(int item_fd, const std::string& source, const char* name) {
    TRY_ASSIGN(Piece piece, open(source));
    if (piece.is_directory() || piece.archive() != nullptr) {
      TRY(build(piece, source, item_fd, name));
      return false;
    }
    if (::mkdirat(item_fd, name, 0777) != 0) return space_.explain(name, errno);
    TRY_ASSIGN(const Fd directory, open_at(item_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
    TRY(build(piece, source, directory.get(), piece.default_name()));
    return true;
  }

  Status too_many_files() const {
    return fault(E2BIG,
                 source() + ": has more than " + human_count(item_.limit_files) +
                     " files, which limit_files= does not allow",
                 "Leave out what the job does not need (include=, exclude=), or raise or remove "
                 "limit_files=");
  }

  // Returns the destination, where `name` in item_fd is to be placed; "": it is there already.
  Result<std::string> build_one(int item_fd, const std::string& source, const std::string& name) {
    TRY_ASSIGN(Piece piece, open(source));
    const bool is_claimed = variable().has_value() && !is_group_;
    const std::string destination =
        item_.destination.empty() ? piece.default_name() : item_.destination;
    if (!is_claimed) TRY(claim(destination, source));
    TRY_ASSIGN(const bool is_placed, keep_placed(destination));
    if (is_placed) return std::string();
    TRY(build(piece, source, item_fd, name));
    return destination;
  }

  // The job must not see half a choice.
  Status stage_choice(int item_fd) {
    std::vector<std::string> destinations;
    for (const auto& source : sources_) {
      const std::string name = std::to_string(destinations.size());
      TRY_ASSIGN(destinations.emplace_back(), build_one(item_fd, source, name));
    }
    for (std::size_t i = 0; i < destinations.size(); ++i) {
      if (destinations[i].empty()) continue;
      TRY(place(item_fd, std::to_string(i).c_str(), destinations[i]));
    }
    return {};
  }

  void begin_watch() {
    for (auto* key : {&before_, &after_})
      key->emplace(dataset_key(item_, wanted_.is_match, sources_.front(), share_rules()));
  }

  // The key of a directory is made of looks alone. So it is enough that it was the same when it was
  // identified, and is again now.
  void look_again(const Piece& piece, const std::string& source) {
    if (!piece.is_directory()) return add_files(*after_, piece);
    const TreeLook tree = dataset_tree(item_, source, piece.source_fd(), share_rules());
    for (auto* key : {&before_, &after_}) add_source(**key, source, tree);
  }

  // Of a single source: several are not one that could be kept, newest= has another each time, and
  // what is in memory is not kept.
  void mark_source(const Piece& piece, const std::string& source) {
    if (sharing_.is_asked() || wanted_.is_match || newest_ || is_in_memory()) return;
    source_mark_ = piece.is_directory() ? directory_mark(item_, piece.source_fd())
                                        : file_mark(item_, source, piece.source_fd(),
                                                    ShareRules{context_.order, context_.umask});
  }

  Status build(Piece& piece, const std::string& source, int dir_fd, const std::string& name) {
    progress_.set_kind(piece.kind());
    const auto writes = !sharing_.is_read_only()     ? Piece::Writes::kept
                        : context_.order.for_readers ? Piece::Writes::taken_for_all
                                                     : Piece::Writes::taken;
    if (before_ && !piece.is_directory()) add_files(*before_, piece);
    Status built = piece.build({dir_fd, name, context_.umask, space_, writes});
    if (meter_.has_too_many_files()) return too_many_files();
    if (!built) return built;
    if (after_) {
      look_again(piece, source);
      // Before the last source, the keys of a group do not agree.
      if (source == sources_.back())
        sharing_.judge(before_->identity(), after_->identity(), destination_path());
    }
    mark_source(piece, source);
    progress_.add_note(piece.note());
    progress_.add_note(piece.link_note());
    if (!is_group_) progress_.add_note(piece.idle_globs());
    return {};
  }

  Status claim(const std::string& destination, const std::string& source) {
    if (!is_path_below(destination)) {
      return fault(EINVAL, shown(source) + ": its destination's name cannot be derived from this",
                   "Give it one: --stage-dataset=SOURCE:DEST");
    }
    TRY(names().claim(destination, source));
    if (!is_group_ || !item_.destination.empty()) progress_.set_destination(destination);
    return {};
  }

  const DatasetItem& item_;
  Unpacking wanted_;
  std::optional<NewestChoice> newest_;
  std::string note_;                          // on the sources
  bool is_group_ = false;                     // a glob
  std::map<std::string, std::string> names_;  // of a group: default name → source
  // Of one that leads: its key, by what its sources are before and after they are read.
  std::optional<ShareKey> before_;
  std::optional<ShareKey> after_;
};

}  // namespace

std::unique_ptr<StagedItem> make_dataset(const DatasetItem& item, std::size_t index,
                                         const StageContext& context, std::size_t image) {
  return std::make_unique<Dataset>(item, index, context, image);
}

}  // namespace nodestage
