// AnyDelivery: an order for any of the tasks that deliver results.
#pragma once

#include <string>

#include "common/wire/worker_order.hpp"

struct AnyDelivery : nodestage::PushOrder {
  nodestage::WorkerTask task = nodestage::WorkerTask::stage_out;
  std::string recover_to;

  [[nodiscard]] nodestage::RecoverOrder recovery() const { return {*this, recover_to}; }
  [[nodiscard]] nodestage::StageOutOrder at_end() const { return {*this}; }
  [[nodiscard]] nodestage::WorkerOrder as_asked() const {
    using nodestage::WorkerTask;
    if (task == WorkerTask::push) return static_cast<const nodestage::PushOrder&>(*this);
    if (task == WorkerTask::recover) return recovery();
    return at_end();
  }
};
