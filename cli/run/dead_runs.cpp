#include "cli/run/dead_runs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
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

// A record of a run on another host can be seen before it is complete, and without its locks.
constexpr std::chrono::minutes k_incomplete{1};

struct Found {
  PrivateKind kind;
  std::string path;
};

std::vector<Found> private_directories(const std::string& parent) {
  std::vector<Found> found;
  auto names = DirectoryStream::at(AT_FDCWD, parent);
  while (const auto name = names.next()) {
    if (const auto kind = private_kind(*name))
      found.push_back({*kind, parent + "/" + std::string(*name)});
  }
  return found;
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

void clear_job(PushDirectory& run, const Say& say, const MustStop& must_stop) {
  const std::string path = run.job_path();
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

// Of a run that was killed while it made them.
void clear_begun(PushDirectory& run) {
  const std::string boot = boot_id();
  if (boot.empty() || run.boot() != boot) return;
  ::rmdir(run.job_path().c_str());
  forget(run);
}

bool is_old(const PrivateDirectory& directory) {
  struct stat info {};
  return ::fstat(directory.fd(), &info) == 0 &&
         std::time(nullptr) - info.st_mtim.tv_sec > std::chrono::seconds(k_incomplete).count();
}

void clear_incomplete(const std::string& path) {
  auto directory = PrivateDirectory::adopt_unlocked(path);
  if (directory && is_old(*directory)) static_cast<void>(!directory->remove());
}

void clear_record(const std::string& path, const Say& say, const MustStop& must_stop) {
  auto run = PushDirectory::take_over(path);
  if (!run && run.error().code == ENOENT) return clear_incomplete(path);
  if (!run) return;
  if (run->mark().empty()) return clear_begun(*run);
  // That of another node may live: a lock can hold for one node only.
  if (run->order().node == node_name()) clear_job(*run, say, must_stop);
}

void clear_memory(const std::string& path, const MustStop& must_stop) {
  if (auto directory = PrivateDirectory::adopt_unlocked(path))
    static_cast<void>(!directory->remove(must_stop));
}

}  // namespace

void clear_dead_runs(const std::string& parent, const Say& say, const MustStop& must_stop) {
  for (const auto& [kind, path] : private_directories(parent)) {
    if (must_stop()) return;
    switch (kind) {
      case PrivateKind::job:
        break;  // by its record alone: without one, it has results that were named
      case PrivateKind::record:
        clear_record(path, say, must_stop);
        break;
      case PrivateKind::memory:
        clear_memory(path, must_stop);
        break;
    }
  }
}

}  // namespace nodestage
