#include "daemon/worker/stage/keep.hpp"

#include <utility>

#include "common/text/human.hpp"
#include "daemon/worker/share/identify.hpp"
#include "daemon/worker/stage/stage.hpp"
#include "daemon/worker/stage/stage_report.hpp"

namespace nodestage {

int run_keep(KeepOrder order, const StageRequest& request, OpenedItems items) {
  const auto opened = items.find(order.only_item);
  const bool is_there = opened != items.end() && order.only_item < request.datasets.size() &&
                        is_for_readers(request.datasets[order.only_item]) &&
                        order.shared.size() == 1;
  if (!is_there) return StageReport().fail("its source was not handed over, open", {});
  StageRequest one;
  one.umask = k_umask_for_all;
  one.datasets.push_back(request.datasets[order.only_item]);
  one.datasets.front().destination = last_part(order.shared.front().path);
  one.datasets.front().name.clear();
  one.datasets.front().storage = Storage::disk;
  order.shared.front().item = 0;
  read_opened_only(std::move(opened->second));
  return run_stage(order, one, nullptr);
}

}  // namespace nodestage
