#include "daemon/worker/spool/item_relay.hpp"

#include "common/text/human.hpp"

namespace nodestage {

std::unique_ptr<RelayedSource> ItemRelay::begin(const std::string& path, int fd,
                                                const struct stat& info, std::uint64_t offset) {
  if (sources_ == nullptr || !sources_->qualifies(fd, info)) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    was_asked_ = true;
  }
  std::string why;
  if (const auto place = sources_->claim(path, info, meter_, why))
    return std::make_unique<RelayedSource>(*place, *sources_, meter_, offset);
  add({0, "", why});
  return nullptr;
}

std::unique_ptr<RelayedTree> ItemRelay::begin_directory(const std::string& path, int fd,
                                                        const struct stat& info,
                                                        std::uint64_t wanted) {
  if (sources_ == nullptr || !sources_->qualifies(fd, info)) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    was_asked_ = true;
  }
  std::string why;
  if (const auto place = sources_->claim_directory(path, info, wanted, meter_, why))
    return std::make_unique<RelayedTree>(*place, *sources_, meter_);
  add({0, "", why});
  return nullptr;
}

void ItemRelay::add(const RelayedSource::Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (why_.empty()) why_ = outcome.why;
  if (outcome.from_nodes <= from_node_) return;
  from_node_ = outcome.from_nodes;
  node_ = outcome.node;
}

bool ItemRelay::was_asked() const {
  const std::lock_guard lock(mutex_);
  return was_asked_;
}

std::string ItemRelay::note() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t bytes = meter_.from_nodes;
  std::string from = bytes == 0 ? ""
                                : human_bytes(bytes) + " from " +
                                      (node_.empty() ? "other nodes" : "node " + node_);
  if (why_.empty()) return from;
  return from.empty() ? "read from the file system, not from other nodes: " + why_
                      : from + ", the rest from the file system: " + why_;
}

}  // namespace nodestage
