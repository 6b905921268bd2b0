#include "daemon/worker/out/recover_output.hpp"

#include <cerrno>

#include "common/text/human.hpp"
#include "daemon/worker/deliver/copy_out.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/output_source.hpp"
#include "daemon/worker/out/output_target.hpp"

namespace nodestage {
namespace {

using Kind = OutputSource::Kind;

// "a/b/" becomes "a" and "b".
std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/', path.find_last_not_of('/'));
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

Status copy_one(const std::string& path, const OutputSource& source, const WorkerOrder& order,
                const JobResults& job, OutputLinks& links, OutputReport& report) {
  TRY_ASSIGN(const JobPlace place, place_of(links.tree(), source, path));
  const std::string parent = parent_of(path);
  TRY_ASSIGN(Fd into, make_directories(order.recover_to + "/" + parent));
  links.begin_in(parent);
  CopyScope scope;
  scope.links = &links;
  scope.leaves_out = job.leaves_out(source);
  CopyOut copy(std::move(into), pending_names(order), report, scope);
  const Status copied =
      copy.entry(place.entry(), last_part(path), place.path.substr(0, place.path.rfind('/') + 1));
  const Status synced = copy.sync();
  return copied ? synced : copied;
}

void copy_all(const OutputSource& source, const WorkerOrder& order, const JobResults& job,
              OutputReport& report) {
  OutputLinks links = job.links(source);
  for (const std::string& path : source.paths) {
    if (const auto place = place_of(job.tree, source, path))
      links.add(place->path, path.substr(0, path.find_last_not_of('/') + 1));
  }
  for (const std::string& path : source.paths) {
    const Status copied = copy_one(path, source, order, job, links, report);
    if (!copied) return report.finish(copied);
  }
  report.finish({});
}

// The part of a path that is a link out of the job directory.
std::string link_out(const JobTree& job, const std::string& path) {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    const auto place = job.find({part});
    if (place && place->kind == JobPlace::Kind::outside) return part;
  }
  return path;
}

// All that the tree has of an output that is not in it.
void recover_link(const std::string& source, const WorkerOrder& order, const JobResults& job,
                  OutputReport& report) {
  const std::string link = link_out(job.tree, source.substr(0, source.find_last_not_of('/') + 1));
  report.add_note(link + ": leads out of the job's directory, and was copied as a link");
  report.begin("", order.recover_to + "/" + link);
  copy_all({Kind::matches, {link}}, order, job, report);
}

}  // namespace

void recover_output(const OutputItem& item, const WorkerOrder& order, const JobResults& job,
                    OutputReport& report) {
  if (is_excluded(item.when, order.outcome)) return report.skip("when= excludes it");
  const auto source = job.find(item);
  if (!source && source.error().code == EXDEV) return recover_link(item.source, order, job, report);
  if (!source) return report.finish(source.error());
  if (source->kind == Kind::missing)
    return report.skip(item.source + ": nothing of that name in the job's directory");
  report.begin("", order.recover_to + "/" + item.source);
  copy_all(*source, order, job, report);
}

void recover_left(const std::vector<std::string>& paths, const WorkerOrder& order,
                  const JobResults& job, OutputReport& report) {
  OutputSource left{Kind::matches, paths};
  left.changed = paths;  // of what was staged, too, only that is recovered
  report.begin("", order.recover_to);
  copy_all(left, order, job, report);
}

}  // namespace nodestage
