#include "daemon/worker/read/find_sources.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/text/glob_text.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/read/opened_sources.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/glob_walk.hpp"

namespace nodestage {
namespace {

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

Error search_fault(const std::string& glob, const Error& error) {
  if (error.code == E2BIG)
    return fault(E2BIG, shown(glob) + ": too many directories would be searched",
                 "Begin the search further down: name more directories before '**'");
  if (error.code == EACCES || error.code == EPERM)
    return fault(error.code,
                 shown(glob) + ": cannot be searched for matches: " +
                     shown(without_slashes(error.what)) + ": " + std::strerror(error.code),
                 "The job's user must be able to read all directories that it enters, or leave "
                 "them out with exclude=NAME");
  return with_suffix(open_fault(glob, error.code), ": a directory on the path cannot be read");
}

// Adds what one name means: itself, or what it matches.
Status add_matches(GlobWalk& walk, const std::string& name) {
  if (exists(name)) {
    walk.add_match(name);
    return {};
  }
  if (!is_glob(name)) return examine_source(name).error();
  const std::size_t before = walk.count();
  if (const Status searched = walk.add(name); !searched)
    return search_fault(name, searched.error());
  if (walk.count() > before) return {};
  if (walk.specials() > 0)
    return fault(ENOENT, shown(name) + ": only FIFOs, sockets or devices match",
                 "Only regular files and directories can be staged");
  return fault(ENOENT, shown(name) + ": no file matches", "Check it: ls -d " + shown(name));
}

}  // namespace

Result<FoundSources> find_sources(const std::string& source,
                                  std::function<bool(const std::string& below)> excludes) {
  if (const OpenedByText* opened = opened_items()) {
    const auto item = opened->find(source);
    if (item == opened->end()) return Error{EACCES, shown(source) + ": was not handed over, open"};
    FoundSources found{{}, item->second.is_group};
    for (const OpenedSource& one : item->second.sources) found.paths.push_back(one.path);
    return found;
  }
  if (!is_glob(source) || exists(source)) return FoundSources{{source}, false};
  const auto names = brace_texts(source);
  if (!names) return with_prefix(names.error(), shown(source) + ": ");
  GlobWalk walk;
  walk.leave_out(std::move(excludes));
  for (const std::string& name : *names) TRY(add_matches(walk, name));
  return FoundSources{walk.take_matches(), true, walk.specials()};
}

}  // namespace nodestage
