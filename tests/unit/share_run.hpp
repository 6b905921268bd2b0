// ShareRun: a StageRun of a node that keeps shared data, in whose data directory everything counts
// as settled.
#pragma once

#include "stage_run.hpp"

inline constexpr const char* k_kept_whole =
    "shared: kept on this node for your further jobs; it is read-only";

template <typename Run>
class ShareRun : public Run {
 public:
  explicit ShareRun(const std::string& command = ":") : Run(command) {
    this->order.cache = "/cache";
    this->order.cache_min_age_s = 0;
  }

  // The key of an item; "" if it must not be kept: then why_not says why.
  std::string key(std::size_t item = 0) {
    why_not.clear();
    this->task = nodestage::WorkerTask::identify;
    const int code = this->run();
    this->task = nodestage::WorkerTask::stage;
    if (code != 0 || this->status.phase != nodestage::WorkerPhase::done) return "not identified";
    why_not = this->note(item);
    return nodestage::field_text(this->status.items.at(item).name);
  }

  // The key of an item that must be kept.
  std::string valid_key(std::size_t item = 0) {
    const std::string found = key(item);
    REQUIRE_MESSAGE(found.size() == nodestage::k_share_key_bytes, why_not);
    return found;
  }

  nodestage::SharedItem& decide(nodestage::ShareRole role, const std::string& name,
                                std::uint32_t item = 0) {
    nodestage::SharedItem shared;
    shared.item = item;
    shared.role = role;
    if (role != nodestage::ShareRole::own) {
      shared.key = key(item);
      shared.path = this->order.cache + "/1." + shared.key + "/" + name;
    }
    this->order.shared.push_back(shared);
    return this->order.shared.back();
  }

  [[nodiscard]] bool has_flag(std::uint32_t flag, std::size_t item = 0) const {
    return (this->status.items.at(item).flags & flag) != 0;
  }

  std::string why_not;
};
