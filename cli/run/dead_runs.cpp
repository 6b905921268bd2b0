#include "cli/run/dead_runs.hpp"

#include <fcntl.h>

#include <chrono>
#include <vector>

#include "cli/base/private_directory.hpp"
#include "cli/base/push_directory.hpp"
#include "cli/base/this_node.hpp"
#include "cli/run/kept_results.hpp"
#include "common/os/boot_id.hpp"
#include "common/os/directory_stream.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {
namespace {

using Say = std::function<void(const std::string&)>;
using MustStop = std::function<bool()>;

constexpr std::chrono::seconds k_long{2};  // what takes longer is said before it has ended

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
  StageOutOrder order = run.order();
  order.outcome = JobOutcome::unknown;
  std::vector<std::string> results;
  if (request) results = kept_results(*request, order, tree);
  if (request && results.empty()) return {};
  if (need_the_rest(results, tree)) results.clear();
  return how_to_copy(results, directory.path());
}

void forget(PushDirectory& run) { static_cast<void>(!run.remove()); }

void note_not_opened(PushDirectory& run, const Error& fault, const Say& say) {
  if (fault.code == ENOENT) return forget(run);  // it was removed
  say("what an earlier `nodestage run` left when it was killed cannot be opened, and stays: " +
      fault.text());
}

void note_doubt(const std::string& path, const std::string& how_to_fetch, const Say& say) {
  const std::string where =
      " of a `nodestage run` from before this node's last boot, or of one that still runs on "
      "another node of this name\n";
  if (how_to_fetch.empty())
    return say(path + " stays: it is" + where + "Remove it with: rm -rf " + shell_word(path));
  say("the results in " + path + " stay: they are" + where + how_to_fetch);
}

Status remove(PrivateDirectory& directory, const Say& say, const MustStop& must_stop) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  bool was_said = false;
  return directory.remove([&] {
    if (!was_said && Clock::now() - begun > k_long) {
      say("removing what an earlier `nodestage run` left when it was killed: " + directory.path());
      was_said = true;
    }
    return must_stop();
  });
}

void clear_directory(PushDirectory& run, PrivateDirectory& directory, const Say& say,
                     const MustStop& must_stop) {
  const Status removed = remove(directory, say, must_stop);
  if (!removed && must_stop()) return;
  if (!removed)
    return say("what an earlier `nodestage run` left when it was killed could not be removed: " +
               removed.error().text());
  forget(run);
  say("removed what an earlier `nodestage run` left when it was killed: " + directory.path());
}

void clear(PushDirectory& run, const std::string& path, const Say& say, const MustStop& must_stop) {
  auto directory = PrivateDirectory::adopt(path, run.mark());
  if (!directory) return note_not_opened(run, directory.error(), say);
  const std::string how = how_to_fetch(run, *directory);
  const std::string boot = boot_id();
  if (boot.empty() || run.boot() != boot) return note_doubt(path, how, say);
  if (how.empty()) return clear_directory(run, *directory, say, must_stop);
  say("an earlier `nodestage run` was killed before its results were delivered: they are kept in " +
      path + "\n" + how);
  forget(run);
}

}  // namespace

void clear_dead_runs(const std::string& parent, const Say& say, const MustStop& must_stop) {
  for (const std::string& path : private_paths(parent)) {
    if (must_stop()) return;
    auto run = PushDirectory::take_over(path);
    // That of another node may live: a lock can hold for one node only.
    if (!run || run->order().node != node_name()) continue;
    const std::string name(last_part(run->order().directory));
    if (name.starts_with(k_private_name))
      clear(*run, std::string(parent).append("/").append(name), say, must_stop);
  }
}

}  // namespace nodestage
