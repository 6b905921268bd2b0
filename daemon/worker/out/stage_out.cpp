#include "daemon/worker/out/stage_out.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <utility>
#include <vector>

#include "common/request/option_text.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/deliver/copy_out.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/missing_outputs.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {
namespace {

static_assert(k_max_request_items <= 64, "a bit of DeliveryOrder::delivered for each");
constexpr const char* k_delivered_before = "was delivered before";
constexpr const char* k_no_run = "the staging failed, and no step has run";

void write_phase(WorkerPhase phase, std::size_t items, std::string_view cause = "") {
  static_cast<void>(write_status_phase(k_worker_status_fd, phase, items, cause));
}

// Says what the owner of the results can do; the node's name is for the command.
std::string advice(const DeliveryWords& words, int code) {
  std::string first;
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      first = "Make room at the target or in your quota. ";
      break;
    case EFBIG:
      first = "The size of a file is limited, by `ulimit -f` or by the target's file system. ";
      break;
    case EMFILE:
      first = std::string(k_raise_open_files) + ". ";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      first = "Check that you may write to the target. ";
      break;
    case k_foreign_entry:
      first =
          "Files of a container's other users are yours after `podman unshare chown -R 0:0 DIR` in "
          "the job; afterwards, your administrators can change their owner. ";
      break;
    case k_missing_source:
      first = "Correct the name, or add the key `optional` if it need not exist. ";
      break;
    case k_ended_mount:
      first = "In a job, mount outside of its outputs, or unmount before its end. ";
      break;
    case k_was_changed:
      first = "A process of yours is still writing it: let the job wait for all that it starts. ";
      break;
    default:
      break;
  }
  return first + words.last_advice;
}

std::string cause_text(const DeliveryWords& words, const std::vector<OutputReport>& reports) {
  const OutputReport* first = nullptr;
  std::size_t failed = 0;
  for (const OutputReport& report : reports) {
    if (report.state() != ItemState::failed) continue;
    ++failed;
    if (first == nullptr) first = &report;
  }
  if (first == nullptr) return "";
  std::string text = std::string(words.name) + " of " + first->source() + " to " +
                     first->destination() + " failed: " + first->note();
  if (failed > 1) text += " (and " + human_count(failed - 1) + " more of --stage-out failed)";
  return Error{0, text, advice(words, first->first_code())}.text();
}

bool is_first_node(const DeliveryOrder& order) {
  return order.node_index == 0 || order.node_count == 1;
}

// Returns "; there is one in /home/alice, but …" if the source is where the job's commands began,
// and was changed since the job's directory was made; else "".
std::string elsewhere_note(const DeliveryOrder& order, const std::string& source,
                           const JobTree& job) {
  struct statx made {};
  struct stat info {};
  if (order.work_dir.empty() || ::statx(job.fd(), "", AT_EMPTY_PATH, STATX_BTIME, &made) != 0 ||
      (made.stx_mask & STATX_BTIME) == 0 ||
      ::lstat(joined_path(order.work_dir, source).c_str(), &info) != 0 ||
      info.st_mtim.tv_sec < made.stx_btime.tv_sec)
    return {};
  return "; there is one in " + nodestage::shown(order.work_dir) +
         ", but results are taken from $SLURM_TMPDIR alone";
}

// A file system that does not answer keeps no other output waiting: these come last.
void report_missing(const DeliveryOrder& order, const std::string& source, const std::string& text,
                    bool is_kept, const JobTree& job, OutputReport& report) {
  const std::string note = text + elsewhere_note(order, source, job);
  is_kept ? report.give_up(Error{k_missing_source, note}) : report.miss(note);
}

// Reports an output that is there in part.
void report_absent(const DeliveryOrder& order, std::size_t index, const MissingOutputs& missing,
                   bool is_kept, OutputReport& report) {
  if (missing.absent[index].empty()) return;
  const std::string note = absent_note(missing.absent[index], missing.meant[index]);
  if (is_kept) return report.lack(Error{k_missing_source, note});
  is_first_node(order) ? report.add_missing(note) : report.add_note(note);
}

// Returns, for a job whose staging failed, whether it has a result that is not of the staging.
bool shows_a_run(const StageRequest& request, const JobResults& job) {
  return std::any_of(request.outputs.begin(), request.outputs.end(), [&job](const auto& item) {
    const auto source = job.find(item);
    return !source ||
           !std::all_of(source->paths.begin(), source->paths.end(),
                        [&job](const std::string& path) { return job.staged.meets(path); });
  });
}

void deliver_outputs(const DeliveryOrder& order, const StageRequest& request, const JobResults& job,
                     DeliveredList& list, const SettleRules& rules,
                     std::vector<OutputReport>& reports) {
  // What exists of a staged input may be only a part of it, which must not replace the whole in a
  // target.
  const bool ran = order.ran || shows_a_run(request, job);
  const MissingOutputs missing = find_missing(request, order, job);
  const bool is_kept = keeps_left(missing, order, job);
  std::vector<std::size_t> last;
  PrunedOutputs pruned(order, request, list);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (const auto target = expand_pattern(request.outputs[i].target, pattern_facts(order)))
      reports[i].name_target(*target);
    if ((order.delivered >> i & 1) != 0) {
      reports[i].skip(k_delivered_before);
    } else if (!ran) {
      reports[i].skip(k_no_run);
    } else if (missing.is_missing[i]) {
      last.push_back(i);
    } else {
      report_absent(order, i, missing, is_kept, reports[i]);
      if (!is_excluded(request.outputs[i].when, order.outcome))
        reports[i].add_note(hidden_note(request.outputs[i].source, request, job));
      const EarlierDelivery earlier{order.keeps_list ? &list : nullptr, i, pruned.find(i)};
      deliver_output(request.outputs[i], order, job, earlier, rules, reports[i]);
    }
  }
  for (const std::size_t i : last) {
    if (!is_kept && !is_first_node(order)) {
      reports[i].skip(missing.notes[i]);
      continue;
    }
    report_missing(order, request.outputs[i].source, missing_note(missing, i, list.deliveries(i)),
                   is_kept, job.tree, reports[i]);
  }
  // What a killed job has left of its files says nothing of what it would have kept.
  order.outcome == JobOutcome::success ? pruned.run(job, reports) : pruned.leave_all(reports);
}

using Kind = OutputSource::Kind;

// "a/b/" becomes "a" and "b".
std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/', path.find_last_not_of('/'));
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

Status copy_each(const std::vector<std::string>& paths, const OutputSource& source,
                 const JobTree& tree, CopyOut& copy) {
  for (const std::string& path : paths) {
    TRY_ASSIGN(const ResolvedPath place, place_of(tree, source, path));
    TRY(copy.entry(place.entry(), last_part(path),
                   place.path.substr(0, place.path.rfind('/') + 1)));
  }
  return {};
}

// Copies the paths that have that parent, into the same below the target.
Status copy_into(const std::string& parent, const std::vector<std::string>& paths,
                 const OutputSource& source, const RecoverOrder& order, const CopyScope& scope,
                 OutputReport& report) {
  TRY(scope.links->tree().check_outside(order.recover_to, "all of it is recovered"));
  TRY_ASSIGN(Fd into, make_directories(order.recover_to + "/" + parent));
  scope.links->begin_in(parent);
  CopyOut copy(std::move(into), pending_names(order), report, scope);
  const Status copied = copy_each(paths, source, scope.links->tree(), copy);
  const Status synced = copy.sync();
  return copied ? synced : copied;
}

void copy_all(const OutputSource& source, const RecoverOrder& order, const JobResults& job,
              MadeEntries& made, OutputReport& report) {
  OutputLinks links = job.links(source);
  std::map<std::string, std::vector<std::string>> by_parent;
  for (const std::string& path : source.paths) {
    if (const auto place = place_of(job.tree, source, path))
      links.add(place->path, path.substr(0, path.find_last_not_of('/') + 1));
    by_parent[parent_of(path)].push_back(path);
  }
  CopyScope scope;
  scope.replaces_only = &made;
  scope.links = &links;
  scope.leaves_out = job.leaves_out(source);
  report.set_total(bytes_of(source, job, scope.leaves_out));
  for (const auto& [parent, paths] : by_parent) {
    const Status copied = copy_into(parent, paths, source, order, scope, report);
    if (!copied) return report.finish(copied);
  }
  report.finish({});
}

// Copies all that the tree has of an output that is not in it.
void recover_link(const std::string& source, const RecoverOrder& order, const JobResults& job,
                  MadeEntries& made, OutputReport& report) {
  const std::string link = job.tree.link_out(source.substr(0, source.find_last_not_of('/') + 1));
  report.add_note(link + ": leads out of the job's directory, and was copied as a link");
  report.begin("", order.recover_to + "/" + link);
  copy_all({Kind::matches, {link}}, order, job, made, report);
}

// Copies what SOURCE names to order.recover_to/SOURCE, each match of a glob to its own path there,
// unpacked and whatever TARGET was. Of a source that a link leads out of the tree, it copies the
// link. It replaces nothing but what is in `made`, to which it adds what it makes: the sources of
// several outputs can overlap.
void recover_output(const OutputItem& item, const RecoverOrder& order, const JobResults& job,
                    MadeEntries& made, OutputReport& report) {
  if (is_excluded(item.when, order.outcome)) return report.skip("when= excludes it");
  const auto source = job.find(item);
  if (!source && source.error().code == EXDEV)
    return recover_link(item.source, order, job, made, report);
  if (!source) return report.finish(source.error());
  if (source->kind == Kind::missing) return report.skip(nothing_note(item.source, *source));
  report.begin("", order.recover_to + "/" + item.source);
  copy_all(*source, order, job, made, report);
}

// Copies what lies at these paths of the tree to the same paths below order.recover_to: what
// --stage-out does not name where a source of it is missing.
void recover_left(const std::vector<std::string>& paths, const RecoverOrder& order,
                  const JobResults& job, MadeEntries& made, OutputReport& report) {
  OutputSource left{Kind::matches, paths};
  left.changed = paths;  // of what was staged, too, only that is recovered
  report.begin("", order.recover_to);
  copy_all(left, order, job, made, report);
}

// Delivers what is selected and can be delivered early; the rest ends as skipped.
void push_outputs(const PushOrder& order, const StageRequest& request, const JobResults& job,
                  DeliveredList& list, const SettleRules& rules,
                  std::vector<OutputReport>& reports) {
  PrunedOutputs pruned(order, request, list);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const OutputItem& item = request.outputs[i];
    if (!is_selected(order, item, i)) {
      reports[i].skip("");
    } else if (const Status early = check_early(item); !early) {
      reports[i].skip(early.error().what);
    } else {
      push_output(item, order, job, {&list, i, pruned.find(i)}, rules,
                  order.shows_total ? Total::counted : Total::unknown, reports[i]);
    }
  }
  pruned.run(job, reports);
}

void recover_outputs(const RecoverOrder& order, const StageRequest& request, const JobResults& job,
                     std::vector<OutputReport>& reports) {
  MissingOutputs missing = find_missing(request, order, job);
  MadeEntries made;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if ((order.delivered >> i & 1) != 0) {
      reports[i].skip(k_delivered_before);
    } else if ((missing.is_missing[i] || !missing.absent[i].empty()) && !missing.left.empty()) {
      std::vector<std::string> paths = std::exchange(missing.left, {});
      if (const auto source = job.find(request.outputs[i]))
        paths.insert(paths.end(), source->paths.begin(), source->paths.end());
      recover_left(paths, order, job, made, reports[i]);
    } else {
      recover_output(request.outputs[i], order, job, made, reports[i]);
    }
  }
}

// Calls deliver(job, list, reports). `is_listed`: whether it goes by the list of deliveries.
template <typename Order, typename Deliver>
int run_delivery(const Order& order, const StageRequest& request, bool is_listed,
                 std::uint64_t staged_if_unknown, Deliver deliver) {
  write_phase(WorkerPhase::starting, 0);
  ::umask(static_cast<mode_t>(request.umask));
  for (const int signal : {SIGXFSZ, SIGIO}) std::signal(signal, SIG_IGN);

  RateLimit rate(is_listed ? k_worker_rate_fd : -1);
  std::vector<OutputReport> reports;
  reports.reserve(request.outputs.size());
  for (const OutputItem& item : request.outputs) {
    reports.emplace_back(k_worker_status_fd, reports.size(), item, &rate);
  }
  write_phase(WorkerPhase::working, reports.size());
  DeliveredList list(is_listed ? k_worker_delivered_fd : -1);
  const JobTree tree(k_worker_directory_fd, order.directory);
  const StagedData staged(request, order, tree.fd(), staged_if_unknown);
  list.begin(pending_names(order).prefix);
  deliver(JobResults{tree, staged}, list, reports);
  list.end();
  const std::string cause = cause_text(words_of(order), reports);
  write_phase(cause.empty() ? WorkerPhase::done : WorkerPhase::failed, reports.size(), cause);
  return cause.empty() ? 0 : 1;
}

}  // namespace

DeliveryWords words_of(const StageOutOrder& order) {
  const bool is_one = order.node_count <= 1;
  return {"stage-out", "The data are kept on this node: `nodestage recover " +
                           std::to_string(order.job) + " DIR " +
                           (is_one ? "--node=" + order.node : "--all-nodes") +
                           "` copies them to DIR" + (is_one ? "." : "/" + order.node + ".")};
}

DeliveryWords words_of(const PushOrder&) {
  return {"delivery", "It is tried again the next time, and at the end of the job."};
}

DeliveryWords words_of(const RecoverOrder&) {
  return {"recovery", "The data are still kept on this node; name another directory if need be."};
}

int refuse_delivery(const DeliveryWords& words, const Error& error) {
  write_phase(
      WorkerPhase::failed, 0,
      Error{0, "the request cannot be read: " + printable(error.text()), advice(words, 0)}.text());
  return 1;
}

int run_stage_out(const StageOutOrder& order, const StageRequest& request,
                  const SettleRules& rules) {
  return run_delivery(order, request, order.keeps_list, 0,
                      [&](const JobResults& job, DeliveredList& list, auto& reports) {
                        deliver_outputs(order, request, job, list, rules, reports);
                      });
}

// While the job runs, an item may become complete after this order was made.
int run_push(const PushOrder& order, const StageRequest& request, const SettleRules& rules) {
  return run_delivery(order, request, order.keeps_list, UINT64_MAX,
                      [&](const JobResults& job, DeliveredList& list, auto& reports) {
                        push_outputs(order, request, job, list, rules, reports);
                      });
}

int run_recover(const RecoverOrder& order, const StageRequest& request) {
  return run_delivery(order, request, false, 0,
                      [&](const JobResults& job, DeliveredList&, auto& reports) {
                        recover_outputs(order, request, job, reports);
                      });
}

namespace {

// Returns the part of a path below the job directory that was typed as `start`, if it begins so.
std::string_view below(std::string_view path, std::string_view start) {
  const bool is_below = !start.empty() && path.size() > start.size() && path.starts_with(start) &&
                        path[start.size()] == '/';
  return is_below ? path.substr(start.size()) : path;
}

std::string source_of(const std::string& typed, const std::string& directory) {
  for (const std::string_view start : {"$SLURM_TMPDIR", "${SLURM_TMPDIR}"}) {
    if (const auto rest = below(typed, start); rest.size() != typed.size()) return tidy_path(rest);
  }
  if (!typed.starts_with('/')) return tidy_path(typed);
  return tidy_path(below(tidy_path(typed), tidy_path(directory)));
}

}  // namespace

bool is_selected(const PushOrder& order, const OutputItem& item, std::size_t index) {
  if (order.push_all || (order.push_items >> index & 1) != 0) return true;
  const std::string source = tidy_path(item.source);
  return std::any_of(
      order.push_names.begin(), order.push_names.end(),
      [&](const std::string& typed) { return source_of(typed, order.directory) == source; });
}

}  // namespace nodestage
