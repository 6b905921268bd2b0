#include "cli/plan/plan_node.hpp"

#include <fcntl.h>

#include "cli/base/this_node.hpp"
#include "common/os/file.hpp"
#include "common/os/memory_limit.hpp"
#include "common/settings/config.hpp"
#include "common/text/human.hpp"
#include "common/wire/daemon_about.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_about = 64 * 1024;
constexpr const char* k_advice =
    "\nAsk for a node with more local disk (--tmp=SIZE), stage less (include=, exclude=), or use "
    "the "
    "data where it is.";

}  // namespace

MemoryHere memory_here(const std::string& config) {
  MemoryHere here;
  here.bytes = memory_limit();
  if (const auto settings = load_config(config))
    here.share_percent = settings->memory.max_share_percent;
  return here;
}

std::uint64_t read_rate_here(const std::string& config) {
  const auto settings = load_config(config);
  return settings ? settings->read.max_rate_bytes : 0;
}

std::optional<PlanNode> this_plan_node(const std::string& socket) {
  const std::string path = socket.substr(0, socket.rfind('/') + 1) + "about";
  const auto text = read_file(AT_FDCWD, path, k_most_about);
  const DaemonAbout about = text ? decode_about(*text) : DaemonAbout();
  const auto disk = open_at(AT_FDCWD, about.tmpdir_root, O_PATH | O_DIRECTORY);
  if (about.tmpdir_root.empty() || !disk) return {};
  return PlanNode{node_name(), free_on(disk->get()), about.leave_free_bytes,
                  about.least_interval_s};
}

std::string why_not_on(const PlanNode& node, const Amount& need) {
  const Amount available = node.free - Amount{node.leave_free_bytes, 0};
  if (fits(need, available)) return {};
  const auto [free, kept] = human_bytes_apart(node.free.bytes, node.leave_free_bytes);
  const std::string left =
      need.bytes > available.bytes
          ? free + " free" +
                (node.leave_free_bytes == 0 ? "" : ", of which " + kept + " must stay free")
          : human_count(node.free.inodes) + " inodes free";
  return "the data do not fit on this node now: " + node.name + " has " + left + k_advice;
}

}  // namespace nodestage
