#include "daemon/worker/out/measure.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_block = 512;  // of st_blocks

// Files with several names that were met, some of which may be outside of the tree.
using SeenFiles = std::set<std::pair<dev_t, ino_t>>;

void add(TreeSize& size, SeenFiles& seen, const WalkStep& step) {
  if (step.kind != WalkStep::Kind::leaf && step.kind != WalkStep::Kind::directory) return;
  const bool has_more_names = step.kind == WalkStep::Kind::leaf && step.info.st_nlink > 1;
  if (!has_more_names || seen.emplace(step.info.st_dev, step.info.st_ino).second)
    size.bytes += static_cast<std::uint64_t>(step.info.st_blocks) * k_block;
  ++size.inodes;
}

class Drop {
 public:
  Drop(const JobTree& tree, const StagedData& staged) : tree_(tree), staged_(staged) {}

  Status keep_outputs(const std::vector<OutputItem>& outputs) {
    for (const OutputItem& output : outputs) {
      TRY_ASSIGN(const OutputSource found, find_results(tree_, output.source, staged_));
      for (const std::string& path : found.paths) {
        const bool is_whole =
            std::find(found.changed.begin(), found.changed.end(), path) == found.changed.end();
        if (is_whole) TRY(keep(path));
      }
    }
    return {};
  }

  // Where a link of the job leads, all of what was staged stays: what is there counts as a result,
  // and links among what was staged can be on the way.
  Status keep_behind_links() {
    TRY_ASSIGN(TreeWalk walk, begin());
    for (;;) {
      TRY_ASSIGN(const auto step, walk.next());
      if (!step) return {};
      if (step->kind == WalkStep::Kind::fault) return step->fault;
      if (step->kind != WalkStep::Kind::leaf || !S_ISLNK(step->info.st_mode)) continue;
      const std::string path = walk.path(*step);
      if (!is_kept(path) && staged_.is_unchanged(path, step->info)) continue;
      has_links_ = true;
      TRY_ASSIGN(const JobPlace place, tree_.find({path}));
      if (const std::string item = staged_.item_at(place.path); !item.empty()) kept_.insert(item);
    }
  }

  Result<std::uint64_t> run() {
    TRY_ASSIGN(TreeWalk walk, begin());
    std::vector<bool> has_dropped{false};  // of each directory that the walk is in
    for (;;) {
      TRY_ASSIGN(const auto step, walk.next());
      if (!step) return bytes_;
      if (step->kind == WalkStep::Kind::directory) has_dropped.push_back(false);
      if (step->kind == WalkStep::Kind::leaf && drop(*step, walk.path(*step)))
        has_dropped.back() = true;
      if (step->kind != WalkStep::Kind::directory_end) continue;
      const bool may_be_empty = has_dropped.back();
      has_dropped.pop_back();
      if (may_be_empty && !has_links_ &&
          ::unlinkat(step->dir_fd, step->name.c_str(), AT_REMOVEDIR) == 0)
        has_dropped.back() = true;
    }
  }

 private:
  [[nodiscard]] Result<TreeWalk> begin() const {
    TRY_ASSIGN(Fd root, open_at(tree_.fd(), ".", O_PATH | O_DIRECTORY));
    return TreeWalk::begin(std::move(root), WalkFor::looking);
  }

  // As it is named, and where it leads.
  Status keep(const std::string& path) {
    TRY_ASSIGN(const JobPlace place, tree_.find({path}));
    const std::string name = std::filesystem::path(path).lexically_normal();
    kept_.insert(name.substr(0, name.find_last_not_of('/') + 1));
    kept_.insert(place.path);
    return {};
  }

  [[nodiscard]] bool is_kept(const std::string& path) const {
    return std::any_of(kept_.begin(), kept_.end(),
                       [&path](const std::string& top) { return lies_in(path, top); });
  }

  bool drop(const WalkStep& step, const std::string& path) {
    if (!staged_.is_as_staged(path, step.info) || is_kept(path)) return false;
    if (::unlinkat(step.dir_fd, step.name.c_str(), 0) != 0) return false;
    bytes_ += static_cast<std::uint64_t>(step.info.st_blocks) * k_block;
    return true;
  }

  const JobTree& tree_;
  const StagedData& staged_;
  std::set<std::string> kept_;  // paths below the tree, with all that lies in them
  bool has_links_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Result<std::uint64_t> drop_staged(const StageRequest& request, const JobTree& tree,
                                  const StagedData& staged) {
  Drop drop(tree, staged);
  TRY(drop.keep_outputs(request.outputs));
  TRY(drop.keep_behind_links());
  return drop.run();
}

Result<TreeSize> measure_tree(int dir_fd) {
  Fd root(::fcntl(dir_fd, F_DUPFD_CLOEXEC, 0));
  if (!root) return system_error("the tree");
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::reading));
  TreeSize size;
  SeenFiles seen;
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return size;
    add(size, seen, *step);
  }
}

int run_measure(const MeasureOrder& order, const StageRequest& request) {
  const JobTree tree(k_worker_directory_fd, order.directory);
  const StagedData staged(request, order, tree.fd());
  const auto dropped = drop_staged(request, tree, staged);
  if (!dropped)
    log_line("what was staged is kept with the results: " + dropped.error().text());
  else if (*dropped > 0)
    log_line(human_bytes(*dropped) + " of what was staged and is unchanged are not kept");
  const auto size = measure_tree(k_worker_directory_fd);
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(size ? WorkerPhase::done : WorkerPhase::failed);
  header.items = size ? 1 : 0;
  ItemRecord record{};
  if (size) {
    record.bytes_total = size->bytes;
    record.files = size->inodes;
    static_cast<void>(write_status_item(k_worker_status_fd, 0, record));
  } else {
    log_line("the held tree cannot be measured: " + size.error().text());
  }
  static_cast<void>(write_status_header(k_worker_status_fd, header));
  return size ? 0 : 1;
}

}  // namespace nodestage
