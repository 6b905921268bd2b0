#include "daemon/worker/out/deliver_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/deliver/copy_out.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/deliver/pack.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

std::uint64_t size_of(const struct stat& info) { return static_cast<std::uint64_t>(info.st_size); }

// Of what is below a directory of the tree, `path`.
std::uint64_t bytes_below(Fd directory, const std::string& path, const LeavesOut& leaves_out,
                          const LeavesOut& is_there) {
  std::uint64_t bytes = 0;
  auto walk = TreeWalk::begin(std::move(directory), WalkFor::reading);
  if (!walk) return bytes;
  for (;;) {
    const auto step = walk->next();
    if (!step || !*step) return bytes;
    const bool is_directory = (*step)->kind == WalkStep::Kind::directory;
    const bool is_file = (*step)->kind == WalkStep::Kind::leaf && S_ISREG((*step)->info.st_mode);
    if (!is_directory && !is_file) continue;
    const std::string name = walk->path(**step);
    const std::string whole = std::string(path).append("/").append(name);
    const bool is_out = leaves_out && leaves_out(whole, (*step)->info);
    if (is_directory && is_out && !walk->skip()) return bytes;
    if (is_file && !is_out && !is_there(name, (*step)->info)) bytes += size_of((*step)->info);
  }
}

}  // namespace

std::uint64_t bytes_of(const OutputSource& source, const JobResults& job,
                       const LeavesOut& leaves_out, const IsThere& is_there) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < source.paths.size(); ++i) {
    const auto place = place_of(job.tree, source, source.paths[i]);
    if (!place) continue;
    const LeavesOut is_there_below = [&is_there, i](const std::string& path,
                                                    const struct stat& info) {
      return is_there && is_there(i, path, info);
    };
    if (S_ISREG(place->info.st_mode) && !is_there_below("", place->info))
      bytes += size_of(place->info);
    if (!S_ISDIR(place->info.st_mode)) continue;
    if (auto directory = place->open_directory())
      bytes += bytes_below(std::move(*directory), place->path, leaves_out, is_there_below);
  }
  return bytes;
}

namespace {

using Form = OutputTarget::Form;
using Kind = OutputSource::Kind;

// Of staged data, in the places of an output's links: configurations and the like, no datasets.
constexpr std::uint64_t k_most_linked_bytes = std::uint64_t{1} << 30;

std::string kind_text(const OutputSource& source) {
  if (source.kind == Kind::directory) return "directory";
  if (source.kind == Kind::file) return "file";
  return counted(source.paths.size(), "match", "matches");
}

constexpr const char* k_archive_at_end =
    "its target is an archive, which is written once, at the end of the job";

Status clash(const std::string& path, const std::string& name) {
  return Error{EEXIST,
               path + ": another match is called " + name +
                   " too, and only one of them can have that name in the target; let the pattern "
                   "match the directories that they are in"};
}

// Whether nothing has the path, for certain, and the directory in which it is missing has not
// changed for so long: while the job removes a directory, a part of it is gone.
bool is_gone(const JobTree& tree, std::string path, SettleRules::Time rest) {
  for (bool is_missing = false;; is_missing = true) {
    const auto place = tree.find({path, LastLink::keep});
    const bool is_there = place && place->kind == ResolvedPath::Kind::there;
    if (is_there) return is_missing && age_of(place->info.st_mtim) >= rest;
    if (!place && place.error().code != ENOENT && place.error().code != ENOTDIR) return false;
    if (path.empty()) return rest == SettleRules::Time(0);
    path = split_path(path).parent;
  }
}

class Delivery {
 public:
  // Borrows everything.
  Delivery(const DeliveryOrder& order, const JobResults& job, const OutputSource& source,
           const OutputTarget& target, CopyScope scope, OutputReport& report)
      : order_(order),
        links_(job.links(source)),
        source_(source),
        target_(target),
        scope_(std::move(scope)),
        report_(report) {
    scope_.links = &links_;
  }

  // Reports how many bytes are to be copied. What earlier deliveries brought is not among them.
  void count(const JobResults& job) {
    const IsThere is_there = [this](std::size_t source, const std::string& path,
                                    const struct stat& info) {
      std::string name = path;
      if (target_.form != Form::contents) {
        name = target_.form == Form::named ? target_.name : last_part(source_.paths[source]);
        if (!path.empty()) name += "/" + path;
      }
      return scope_.list != nullptr && scope_.list->has(scope_.item, name, info);
    };
    report_.set_total(bytes_of(source_, job, scope_.leaves_out, is_there));
  }

  Status run() {
    if (target_.form == Form::contents) return run_contents();
    TRY_ASSIGN(Fd into, make_directories(target_.directory));
    if (target_.form == Form::archive) return pack_whole(into.get());
    std::string name = target_.name;
    if (target_.form == Form::named) {
      if (auto below = open_at(into.get(), name, O_PATH | O_DIRECTORY)) {  // as cp does
        into = std::move(*below);
        name = last_part(source_.paths.front());
      }
    }
    CopyOut copy(std::move(into), names(), report_, scope_);
    const bool is_named = target_.form == Form::named;
    return synced(copy, each(is_named ? std::vector{name} : base_names(), copy));
  }

 private:
  Status run_contents() {
    TRY_ASSIGN(auto directory, contents());
    struct stat info {};
    if (!directory) return {};
    if (::fstat(directory->get(), &info) != 0) return system_error("cannot look at the source");
    TRY_ASSIGN(Fd into, make_directories(target_.directory, mode_while_filled(info)));
    CopyOut copy(std::move(into), names(), report_, scope_);
    return synced(copy, copy.contents(std::move(*directory), info, origin_));
  }

  // Ends a copy that came to `copied`.
  Status synced(CopyOut& copy, const Status& copied) {
    const Status synced = copy.sync();
    if (!synced && scope_.is_early()) scope_.list->take_back();
    if (scope_.pruning != nullptr && copied && synced && report_.faults() == 0 && is_source_there())
      if (auto target = duplicate(copy.target()))
        scope_.pruning->allow(std::move(*target), source_of_copy());
    return copied ? synced : copied;
  }

  // By the directories that the sources are in. What links have led to is not found.
  [[nodiscard]] Pruning::IsThere source_of_copy() const {
    std::set<std::string> tops;
    for (const std::string& path : source_.paths)
      tops.emplace(target_.form == Form::contents ? path : split_path(path).parent);
    const auto rest = scope_.is_early() ? scope_.rules().removed : SettleRules::Time(0);
    return [&tree = links_.tree(), tops, rest](const std::string& copy) {
      return std::any_of(tops.begin(), tops.end(), [&](const std::string& top) {
        return !is_gone(tree, joined_path(top, copy), rest);
      });
    };
  }

  // Whether the job has not removed sources meanwhile.
  [[nodiscard]] bool is_source_there() const {
    return source_.absent.empty() &&
           std::all_of(source_.paths.begin(), source_.paths.end(), [&](const std::string& path) {
             return static_cast<bool>(place_of(links_.tree(), source_, path));
           });
  }

  [[nodiscard]] PendingNames names() const {
    PendingNames names = pending_names(order_);
    if (scope_.list != nullptr && scope_.list->was_busy()) names.may_be_left = true;
    if (scope_.is_early())
      names.before = [list = scope_.list](const std::string& path) { list->note_temporary(path); };
    return names;
  }

  // The directory whose contents are delivered; empty if it has vanished while the job runs.
  Result<std::optional<Fd>> contents() {
    const std::string& path = source_.paths.front();
    const auto place = place_of(links_.tree(), source_, path);
    auto directory = place ? place->open_directory() : Result<Fd>(place.error());
    if (!directory && scope_.is_early() && directory.error().code == ENOENT)
      return std::optional<Fd>();
    if (!directory) return directory.error();
    links_.add(place->path, "");
    origin_ = place->path + "/";
    return std::optional(std::move(*directory));
  }

  [[nodiscard]] std::vector<std::string> base_names() const {
    std::vector<std::string> names;
    for (const std::string& path : source_.paths) names.push_back(last_part(path));
    return names;
  }

  // Gives each of the sources by its name of `names` to a CopyOut or a Pack.
  template <typename Receiver>
  Status each(const std::vector<std::string>& names, Receiver& receiver) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (const auto place = place_of(links_.tree(), source_, source_.paths[i]))
        links_.add(place->path, names[i]);
    }
    std::set<std::string> taken;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!taken.insert(names[i]).second) return clash(source_.paths[i], names[i]);
      const auto place = place_of(links_.tree(), source_, source_.paths[i]);
      if (!place && scope_.is_early() && place.error().code == ENOENT)
        continue;  // is_source_there()
      if (!place) return place.error();
      const std::string origin = place->path.substr(0, place->path.rfind('/') + 1);
      TRY(receiver.entry(place->entry(), names[i], origin));
    }
    return {};
  }

  // An archive has the size of a file before its data, so all of it is packed again.
  Status pack_whole(int into_fd) {
    const SettleRules& rules = scope_.rules();
    for (unsigned reads = 1;; ++reads) {
      const bool is_last = reads >= rules.reads;
      Status packed = pack(into_fd, is_last);
      if (packed || packed.error().code != k_was_changed || is_last) return packed;
      rules.wait(rules.between);
      report_.begin_anew();
    }
  }

  Status pack(int into_fd, bool is_last) {
    TRY(check_written_archive(target_.suffix));
    const PendingNames own = names();
    remove_leftovers(into_fd, own);
    const PendingName pending(into_fd, own);
    TRY_ASSIGN(Fd file, pending.create_file(0666));
    TRY_ASSIGN(const auto archive,
               Pack::begin(file.get(), target_.suffix, order_.threads, order_.user, report_));
    archive->follow(links_);
    archive->leave_out(scope_.leaves_out);
    archive->settle_by(scope_.rules());
    if (is_last) archive->keep_growing_if_same();
    TRY(archive->leave_out_file(file.get()));
    TRY(pack_sources(*archive));
    TRY(archive->finish());
    struct stat made {};
    if (::fsync(file.get()) != 0 || ::fstat(file.get(), &made) != 0)
      return system_error("cannot write the archive");
    TRY(close_checked(std::move(file)));
    TRY(give_name(pending, into_fd, target_.name, made, scope_));
    SyncCrew syncs;
    TRY(syncs.add_directory(into_fd, own));
    return syncs.finish();
  }

  Status pack_sources(Pack& archive) {
    if (source_.kind == Kind::directory) {
      TRY_ASSIGN(auto directory, contents());
      archive.leave_out(scope_.leaves_out, origin_);
      return archive.contents(std::move(*directory), "");
    }
    return each(base_names(), archive);
  }

  const DeliveryOrder& order_;
  OutputLinks links_;
  const OutputSource& source_;
  const OutputTarget& target_;
  CopyScope scope_;
  OutputReport& report_;
  std::string origin_;  // of contents()
};

Result<OutputTarget> place_outside(const OutputItem& item, const DeliveryOrder& order,
                                   const OutputSource& source, const JobTree& tree) {
  auto target = place_output(item, order, source);
  if (target) TRY(tree.check_outside(target->path(), "the job ends"));
  return target;
}

void count_delivery(const EarlierDelivery& earlier, OutputReport& report) {
  if (earlier.list == nullptr) return;
  report.set_deliveries(report.files() > 0 ? earlier.list->add_delivery(earlier.item)
                                           : earlier.list->deliveries(earlier.item));
}

}  // namespace

bool is_excluded(When when, JobOutcome outcome) {
  return (when == When::success && outcome == JobOutcome::failure) ||
         (when == When::failure && outcome == JobOutcome::success);
}

Result<OutputSource> JobResults::find(const OutputItem& item) const {
  return find_results(tree, item.source, staged);
}

LeavesOut JobResults::leaves_out(const OutputSource& source) const {
  if (source.changed.empty()) return {};
  // What is named itself is a result, but for links to what is kept.
  const bool is_named = source.kind != Kind::matches;
  return [this, is_named](const std::string& path, const struct stat& info) {
    return is_named ? staged.is_kept(path, info) : staged.is_unchanged(path, info);
  };
}

OutputLinks JobResults::links(const OutputSource& source) const {
  OutputLinks links(tree, source.changed.empty() ? Linked::all : Linked::changed);
  const auto behind = std::make_shared<StagedLinks>(tree, staged, k_most_linked_bytes);
  links.leave_out([behind](const std::string& path, const struct stat& info) {
    return behind->is_all_unchanged(path, info);
  });
  links.leave([behind](const ResolvedPath& place) { return behind->share(place); });
  return links;
}

PrunedOutputs::PrunedOutputs(const DeliveryOrder& order, const StageRequest& request,
                             DeliveredList& list)
    : request_(request), list_(list) {
  if (!order.keeps_list || order.tries > 0) return;
  for (std::size_t i = 0; i < request.outputs.size(); ++i)
    if (request.outputs[i].prune) outputs_.try_emplace(i, list, i);
  if (!outputs_.empty()) list.note_places();
}

Pruning* PrunedOutputs::find(std::size_t item) {
  const auto found = outputs_.find(item);
  return found == outputs_.end() ? nullptr : &found->second;
}

void PrunedOutputs::run(const JobResults& job, std::vector<OutputReport>& reports) {
  const auto has_failed = [](const OutputReport& report) {
    return report.state() == ItemState::failed;
  };
  if (outputs_.empty() || std::any_of(reports.begin(), reports.end(), has_failed))
    return leave_all(reports);
  Pruning::Sizes not_stored;
  const IsThere add_size = [&not_stored](std::size_t, const std::string&, const struct stat& info) {
    not_stored.insert(info.st_size);
    return true;
  };
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const bool is_stored = reports[i].state() == ItemState::done && reports[i].unsettled() == 0;
    if (is_stored || find(i) != nullptr) continue;
    if (const auto source = job.find(request_.outputs[i]))
      static_cast<void>(bytes_of(*source, job, {}, add_size));
  }
  for (auto& [item, pruning] : outputs_) reports[item].set_pruned(pruning.run(not_stored));
}

void PrunedOutputs::leave_all(std::vector<OutputReport>& reports) {
  for (const auto& [item, pruning] : outputs_) reports[item].set_pruned(list_.pruned(item));
}

void deliver_output(const OutputItem& item, const DeliveryOrder& order, const JobResults& job,
                    const EarlierDelivery& earlier, const SettleRules& rules,
                    OutputReport& report) {
  if (is_excluded(item.when, order.outcome)) {
    return report.skip(item.when == When::success ? "when=success, and the job failed"
                                                  : "when=failure, and the job succeeded");
  }
  const auto source = job.find(item);
  if (!source) return report.finish(source.error());
  if (source->kind == Kind::missing) return report.skip(nothing_note(item.source, *source));
  if (item.when != When::always && order.outcome == JobOutcome::unknown) {
    return report.give_up(
        Error{ENODATA, "it is not known on this node whether the job succeeded (when=)"});
  }
  const auto target = place_outside(item, order, *source, job.tree);
  if (!target) return report.give_up(target.error());
  const bool packed = target->form == Form::archive;
  report.begin(packed ? target->suffix.substr(1) : kind_text(*source), target->path());
  CopyScope scope;
  if (earlier.list != nullptr) scope = {CopyWhat::missing, earlier.list, earlier.item};
  scope.held_since = order.held_since;
  scope.pruning = earlier.pruning;
  scope.settled = &rules;
  scope.leaves_out = job.leaves_out(*source);
  if (const std::string note = left_out_note(*source); !note.empty()) report.add_note(note);
  const Status delivered = Delivery(order, job, *source, *target, scope, report).run();
  count_delivery(earlier, report);
  report.finish(delivered);
}

void push_output(const OutputItem& item, const DeliveryOrder& order, const JobResults& job,
                 const EarlierDelivery& earlier, const SettleRules& rules, Total total,
                 OutputReport& report) {
  CopyScope scope{CopyWhat::changed, earlier.list, earlier.item, &rules};
  scope.pruning = earlier.pruning;
  Status pushed;
  for (unsigned look = 1;; ++look) {
    if (scope.pruning != nullptr) scope.pruning->begin();
    const auto source = job.find(item);
    if (!source) return report.finish(source.error());
    if (source->kind == Kind::missing) {
      if (look > 1) break;
      return report.skip(nothing_note(item.source, *source) + " yet");
    }
    const auto target = place_outside(item, order, *source, job.tree);
    if (!target) return report.finish(target.error());
    if (target->form == Form::archive) return report.skip(k_archive_at_end);
    if (look == 1) {
      scope.syncs_all = earlier.list->begin_output(earlier.item);
      report.begin(kind_text(*source), target->path());
    }
    scope.leaves_out = job.leaves_out(*source);
    Delivery delivery(order, job, *source, *target, scope, report);
    if (look == 1 && total == Total::counted) delivery.count(job);
    pushed = delivery.run();
    if (!pushed || report.unsettled() == 0 || look >= rules.looks) break;
    rules.wait(rules.between);
    report.begin_again();
  }
  if (pushed) earlier.list->end_output(earlier.item);
  count_delivery(earlier, report);
  report.finish(pushed);
}

}  // namespace nodestage
