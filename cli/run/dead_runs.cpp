#include "cli/run/dead_runs.hpp"

#include <fcntl.h>

#include <vector>

#include "cli/base/private_directory.hpp"
#include "cli/base/push_directory.hpp"
#include "cli/run/kept_results.hpp"
#include "common/os/directory_stream.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {
namespace {

using Say = std::function<void(const std::string&)>;

std::vector<std::string> private_paths(const std::string& parent) {
  std::vector<std::string> paths;
  auto names = DirectoryStream::at(AT_FDCWD, parent);
  while (const auto name = names.next()) {
    if (name->starts_with(k_private_name)) paths.push_back(parent + "/" + std::string(*name));
  }
  return paths;
}

// How to fetch the results; "" if there are none. If the request cannot be read, all may be one.
std::string how_to_fetch(const PushDirectory& run, const PrivateDirectory& directory) {
  const JobTree tree(directory.fd(), directory.path());
  const auto request = decode_request(run.request());
  WorkerOrder order = run.order();
  order.outcome = JobOutcome::unknown;
  std::vector<std::string> results;
  if (request) results = kept_results(*request, order, tree);
  if (request && results.empty()) return {};
  if (need_the_rest(results, tree)) results.clear();
  return how_to_copy(results, directory.path());
}

void clear(PushDirectory& run, const Say& say) {
  const std::string path = run.order().directory;
  if (!last_part(path).starts_with(k_private_name)) return;
  auto directory = PrivateDirectory::adopt(path);
  if (!directory) return;  // it was removed
  if (const std::string how = how_to_fetch(run, *directory); !how.empty()) {
    directory->keep();
    return say(
        "an earlier `nodestage run` was killed before its results were delivered: they are "
        "kept in " +
        path + "\n" + how);
  }
  if (const Status removed = directory->remove(); !removed) {
    run.keep();
    return say("what an earlier `nodestage run` left when it was killed could not be removed: " +
               removed.error().text());
  }
  say("removed what an earlier `nodestage run` left when it was killed: " + path);
}

}  // namespace

void clear_dead_runs(const std::string& parent, const Say& say) {
  for (const std::string& path : private_paths(parent)) {
    auto run = PushDirectory::take_over(path);
    if (run) clear(*run, say);
  }
}

}  // namespace nodestage
