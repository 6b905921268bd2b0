#include "daemon/worker/out/measure.hpp"

#include <fcntl.h>

#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_block = 512;  // of st_blocks

void add(TreeSize& size, const WalkStep& step) {
  if (step.kind != WalkStep::Kind::leaf && step.kind != WalkStep::Kind::directory) return;
  const auto bytes = static_cast<std::uint64_t>(step.info.st_blocks) * k_block;
  const bool is_leaf = step.kind == WalkStep::Kind::leaf;
  // Each name of a file gets its share; no name is outside of the tree.
  size.bytes += is_leaf && step.info.st_nlink > 1 ? bytes / step.info.st_nlink : bytes;
  ++size.inodes;
}

}  // namespace

Result<TreeSize> measure_tree(int dir_fd) {
  Fd root(::fcntl(dir_fd, F_DUPFD_CLOEXEC, 0));
  if (!root) return system_error("the tree");
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::reading));
  TreeSize size;
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return size;
    add(size, *step);
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
