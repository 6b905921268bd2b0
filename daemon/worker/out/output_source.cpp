#include "daemon/worker/out/output_source.hpp"

#include <sys/stat.h>

#include "common/text/glob_text.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/deliver/source_fault.hpp"
#include "daemon/worker/tree/glob_walk.hpp"

namespace nodestage {
namespace {

Error named(const std::string& path, int code) {
  if (code == EXDEV) return Error{code, path + ": a link there leads out of the job directory"};
  if (code == ENOTCONN) {
    const Error fault = source_fault(system_error(path, code), {});
    return Error{fault.code, path + ": " + fault.what};
  }
  return system_error(path, code);
}

// Adds what one name of a glob with braces means; false: nothing.
Result<bool> add_matches(GlobWalk& walk, const JobTree& job, const std::string& name) {
  if (!is_path_below(name)) return false;
  const auto literal = job.find({name, LastLink::keep});
  if (literal && literal->kind == JobPlace::Kind::there) {
    walk.add_match(name);
    return true;
  }
  const std::size_t before = walk.count();
  const Status searched = walk.add(name);
  if (!searched && searched.error().code == E2BIG)
    return Error{E2BIG, name + ": too many directories would be searched"};
  if (!searched) return named(searched.error().what, searched.error().code);
  return walk.count() > before;
}

Result<OutputSource> expand(const JobTree& job, const std::string& glob) {
  OutputSource result;
  TRY_ASSIGN(const auto names, brace_texts(glob));
  GlobWalk walk(job);
  for (const std::string& name : names) {
    TRY_ASSIGN(const bool is_there, add_matches(walk, job, name));
    if (!is_there) result.absent.push_back(name);
  }
  result.paths = walk.take_matches();
  if (!result.paths.empty()) result.kind = OutputSource::Kind::matches;
  return result;
}

}  // namespace

Result<OutputSource> find_output_source(const JobTree& job, const std::string& source) {
  const std::string path = source.substr(0, source.find_last_not_of('/') + 1);
  OutputSource result;
  const auto literal = job.find({path});
  if (!literal) return named(path, literal.error().code);
  if (literal->kind == JobPlace::Kind::outside) return named(path, EXDEV);
  if (literal->kind == JobPlace::Kind::there) {
    result.kind =
        S_ISDIR(literal->info.st_mode) ? OutputSource::Kind::directory : OutputSource::Kind::file;
    result.paths = {path};
    return result;
  }
  const auto link = job.find({path, LastLink::keep});
  result.is_dangling = link && link->kind == JobPlace::Kind::there;
  if (result.is_dangling || !is_glob(path)) return result;
  return expand(job, path);
}

Result<JobPlace> place_of(const JobTree& job, const OutputSource& source, const std::string& path) {
  const bool is_match = source.kind == OutputSource::Kind::matches;
  auto place = job.find({path, is_match ? LastLink::keep : LastLink::follow});
  if (!place) return named(path, place.error().code);
  if (place->kind == JobPlace::Kind::there) return place;
  return named(path, place->kind == JobPlace::Kind::outside ? EXDEV : ENOENT);
}

}  // namespace nodestage
