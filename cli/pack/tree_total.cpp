#include "cli/pack/tree_total.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <exception>
#include <set>
#include <system_error>
#include <utility>

#include "common/os/file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

TreeTotal::TreeTotal(int directory) {
  auto own = open_at(directory, ".", O_PATH | O_DIRECTORY);
  if (!own) return;
  try {
    counting_ = std::thread([this, root = std::move(*own)]() mutable {
      try {
        count(std::move(root));
      } catch (const std::exception&) {  // no memory: it stays unknown
      }
    });
  } catch (const std::system_error&) {  // no thread: the same
  }
}

TreeTotal::~TreeTotal() {
  stop_ = true;
  if (counting_.joinable()) counting_.join();
}

void TreeTotal::count(Fd directory) {
  auto walk = TreeWalk::begin(std::move(directory), WalkFor::looking);
  if (!walk) return;
  std::uint64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> named_again;  // files with several names
  while (!stop_) {
    const auto step = walk->next();
    if (!step) return;
    if (!step->has_value()) {
      bytes_ = bytes;
      return;
    }
    const struct stat& info = (*step)->info;
    if ((*step)->kind != WalkStep::Kind::leaf || !S_ISREG(info.st_mode)) continue;
    if (info.st_nlink > 1 && !named_again.emplace(info.st_dev, info.st_ino).second) continue;
    bytes += static_cast<std::uint64_t>(info.st_size);
  }
}

}  // namespace nodestage
