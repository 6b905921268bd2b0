#include "daemon/worker/out/measure.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <set>
#include <utility>

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

}  // namespace

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

int run_measure() {
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
