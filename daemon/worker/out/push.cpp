#include "daemon/worker/out/push.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "common/request/option_text.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/deliver/copy_out.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/output_target.hpp"

namespace nodestage {
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

void push_outputs(const PushOrder& order, const StageRequest& request, const JobResults& job,
                  DeliveredList& list, const SettleRules& rules,
                  std::vector<OutputReport>& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const OutputItem& item = request.outputs[i];
    if (!is_selected(order, item, i)) {
      reports[i].skip("");
    } else if (const Status early = check_early(item); !early) {
      reports[i].skip(early.error().what);
    } else {
      push_output(item, order, job, {&list, i}, rules,
                  order.shows_total ? Total::counted : Total::unknown, reports[i]);
    }
  }
}

namespace {

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

// The part of a path that is a link out of the job directory.
std::string link_out(const JobTree& job, const std::string& path) {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    const auto place = job.find({part});
    if (place && place->kind == ResolvedPath::Kind::outside) return part;
  }
  return path;
}

// Copies all that the tree has of an output that is not in it.
void recover_link(const std::string& source, const RecoverOrder& order, const JobResults& job,
                  MadeEntries& made, OutputReport& report) {
  const std::string link = link_out(job.tree, source.substr(0, source.find_last_not_of('/') + 1));
  report.add_note(link + ": leads out of the job's directory, and was copied as a link");
  report.begin("", order.recover_to + "/" + link);
  copy_all({Kind::matches, {link}}, order, job, made, report);
}

}  // namespace

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

void recover_left(const std::vector<std::string>& paths, const RecoverOrder& order,
                  const JobResults& job, MadeEntries& made, OutputReport& report) {
  OutputSource left{Kind::matches, paths};
  left.changed = paths;  // of what was staged, too, only that is recovered
  report.begin("", order.recover_to);
  copy_all(left, order, job, made, report);
}

}  // namespace nodestage
