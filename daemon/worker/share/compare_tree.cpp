#include "daemon/worker/share/compare_tree.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/share/source_trust.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_stat_block = 512;  // of st_blocks

void add(TreeState& state, const struct stat& info) {
  const auto bytes = static_cast<std::uint64_t>(info.st_blocks) * k_stat_block;
  // Each name of a file gets its share.
  state.bytes += S_ISDIR(info.st_mode) || info.st_nlink < 2 ? bytes : bytes / info.st_nlink;
  state.ctime = std::max(state.ctime, nanoseconds(info.st_ctim));
}

Status walk_tree(int fd, TreeState& state) {
  Fd root(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!root) return system_error("dup");
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::looking));
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return {};
    if (step->kind == WalkStep::Kind::fault)
      return Error{step->fault.code, walk.path(*step) + ": " + step->fault.what};
    if (step->kind == WalkStep::Kind::directory_end) continue;
    ++state.files;
    add(state, step->info);
  }
}

Status report(WorkerPhase phase, const std::string& cause, const ItemRecord& record) {
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(phase);
  header.items = phase == WorkerPhase::done ? 1 : 0;
  set_field(header.cause, cause);
  if (header.items > 0) TRY(write_status_item(k_worker_status_fd, 0, record));
  return write_status_header(k_worker_status_fd, header);
}

}  // namespace

Result<TreeState> state_of_tree(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("fstat");
  TreeState state;
  add(state, info);
  if (S_ISDIR(info.st_mode)) TRY(walk_tree(fd, state));
  return state;
}

std::string ctime_text(std::int64_t ctime) {
  char text[48];
  std::snprintf(text, sizeof text, "%lld.%09lld", static_cast<long long>(ctime / k_ns_per_s),
                static_cast<long long>(ctime % k_ns_per_s));
  return text;
}

int run_compare() {
  lower_priority();
  const auto state = state_of_tree(k_worker_directory_fd);
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(ItemState::done);
  if (state) {
    record.files = state->files;
    record.bytes_total = state->bytes;
    set_field(record.name, ctime_text(state->ctime));
  }
  const std::string cause = state ? "" : state.error().text();
  if (!state) log_line("a kept tree cannot be compared: " + cause);
  const Status reported = report(state ? WorkerPhase::done : WorkerPhase::failed, cause, record);
  if (!reported) log_line("a kept tree's state cannot be reported: " + reported.error().text());
  return state && reported ? 0 : 1;
}

}  // namespace nodestage
