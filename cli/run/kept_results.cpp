#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>
#include <utility>
#include <vector>

#include "cli/run/image_mounts.hpp"
#include "cli/run/run.hpp"
#include "cli/run_dirs/private_directory.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/missing_outputs.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_named = 5;  // for more, the directory as a whole is named

// What cannot be looked at counts as a link to elsewhere.
bool is_elsewhere(const Result<LinkFate>& fate) {
  return !fate || fate->action == LinkFate::Action::instead ||
         fate->action == LinkFate::Action::loop;
}

// Returns whether `path` is or has below it a link to elsewhere in the directory.
bool leads_elsewhere(const std::string& path, const JobTree& directory, OutputLinks& links) {
  const auto place = directory.find({path, LastLink::keep});
  if (!place || place->kind != ResolvedPath::Kind::there || place->path != path) return true;
  if (S_ISLNK(place->info.st_mode)) return true;
  if (!S_ISDIR(place->info.st_mode)) return false;
  auto top = place->open_directory();
  if (!top) return true;
  auto walk = TreeWalk::begin(std::move(*top), WalkFor::looking);
  if (!walk) return true;
  for (;;) {
    const auto step = walk->next();
    if (!step) return true;
    if (!*step) return false;
    if (!S_ISLNK((*step)->info.st_mode)) continue;
    const SourceEntry link{(*step)->dir_fd, (*step)->name, O_NOFOLLOW};
    if (is_elsewhere(links.look(link, path + "/" + walk->path(**step)))) return true;
  }
}

}  // namespace

std::vector<std::string> kept_results(const StageRequest& request, const DeliveryOrder& order,
                                      const JobTree& directory) {
  const StagedData staged(request, order, directory.fd());
  const JobResults job{directory, staged};
  std::vector<std::string> paths;
  for (const OutputItem& item : request.outputs) {
    if (is_excluded(item.when, order.outcome)) continue;
    const auto source = job.find(item);
    // A source that cannot be examined may exist.
    if (!source) paths.push_back(item.source);
    if (source) paths.insert(paths.end(), source->paths.begin(), source->paths.end());
  }
  const MissingOutputs missing = find_missing(request, order, job);
  if (keeps_left(missing, order, job))
    paths.insert(paths.end(), missing.left.begin(), missing.left.end());
  return paths;
}

bool wants_results(const StageRequest& request, const DeliveryOrder& order) {
  return std::any_of(request.outputs.begin(), request.outputs.end(), [&order](const auto& item) {
    return !item.optional && !is_excluded(item.when, order.outcome);
  });
}

bool need_the_rest(const std::vector<std::string>& paths, const JobTree& directory) {
  std::set<std::string> names;
  OutputLinks links(directory);
  for (const std::string& path : paths) links.add(path, path);
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    return !names.insert(last_part(path)).second || leads_elsewhere(path, directory, links);
  });
}

std::string how_to_copy(const std::vector<std::string>& paths, const std::string& directory) {
  std::string text = "Fetch them with: cp -a";
  if (paths.empty() || paths.size() > k_most_named) {
    text += " " + shell_word(directory);
  } else {
    for (const std::string& path : paths) {
      std::string whole = directory;
      whole.append("/").append(path);
      text.append(" ").append(shell_word(whole));
    }
  }
  return text + " ELSEWHERE && rm -rf " + shell_word(directory);
}

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

// What cannot be removed, such as what is still mounted, is left for the next run.
void forget(PushDirectory& run) {
  detach_images(run.path());
  static_cast<void>(!run.remove());
}

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
  if (!directory || !is_old(*directory)) return;
  detach_images(path);  // if that has failed before
  static_cast<void>(!directory->remove());
}

void clear_record(const std::string& path, const Say& say, const MustStop& must_stop) {
  auto run = PushDirectory::take_over(path);
  if (!run && run.error().code == ENOENT) return clear_incomplete(path);
  if (!run) return;
  if (run->mark().empty()) return clear_begun(*run);
  // That of another node may live: a lock can hold for one node only.
  if (run->order().node == node_name()) clear_job(*run, say, must_stop);
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
        if (auto directory = PrivateDirectory::adopt_unlocked(path))
          static_cast<void>(!directory->remove(must_stop));
        break;
    }
  }
}

}  // namespace nodestage
